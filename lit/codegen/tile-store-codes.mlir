// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// D = 64, 2 bits: 4 bytes per token and lane t on the key side; 16 single bytes on the value side.
// CHECK-LABEL: func.func @key
// CHECK-COUNT-3: arith.shli %{{.*}} : vector<16xi8>
// CHECK-COUNT-4: llvm.store %{{.*}} {alignment = 1 : i64} : vector<4xi8>
// CHECK-NOT:     llvm.store %{{.*}} : i8
// CHECK-LABEL: func.func @value
// CHECK-COUNT-16: llvm.store %{{.*}} {alignment = 1 : i64} : i8
// CHECK-NOT:     llvm.store
// CHECK:         return
func.func @key(%a: !llvm.ptr, %tile: !llvm.ptr, %token: i64) {
  %r = kvq.tile.zero_row : () -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #side}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  kvq.tile.store_codes %c, %tile, %token {record = #record, side = #kvq.side<key>}
    : (!kvq.fragment<codes>, !llvm.ptr, i64) -> ()
  return
}
func.func @value(%a: !llvm.ptr, %tile: !llvm.ptr, %token: i64) {
  %r = kvq.tile.zero_row : () -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #side}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  kvq.tile.store_codes %c, %tile, %token {record = #record, side = #kvq.side<value>}
    : (!kvq.fragment<codes>, !llvm.ptr, i64) -> ()
  return
}

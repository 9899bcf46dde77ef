// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// One store per parameter, behind 512 bytes of codes: K scale at 512, K zero at 516 of token 0.
// CHECK-LABEL: func.func @params
// CHECK:         llvm.getelementptr %{{.*}}[512]
// CHECK-NEXT:    llvm.store %{{.*}} {alignment = 2 : i64} : i16
// CHECK:         llvm.getelementptr %{{.*}}[516]
// CHECK-NEXT:    llvm.store %{{.*}} {alignment = 2 : i64} : i16
// CHECK-NOT:     llvm.store
// CHECK:         return
func.func @params(%tile: !llvm.ptr, %token: i64) {
  %r = kvq.tile.zero_row : () -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #side}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  kvq.tile.store_params %p, %tile, %token {record = #record, side = #kvq.side<key>}
    : (!kvq.fragment<params>, !llvm.ptr, i64) -> ()
  return
}

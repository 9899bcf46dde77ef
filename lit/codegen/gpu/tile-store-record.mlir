// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#two = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#eight = #kvq.tile_side<dim = 64, bits = 8, group = 32, form = "min", params = f16>
#record = #kvq.tile_record<k = #two, v = #two>
#bytes = #kvq.tile_record<k = #eight, v = #eight>

// D = 64 at 2 bits: 16 bytes per token. The codes pass through shared memory, a byte per channel; 16 lanes put four of
// them into a byte and store it.
// CHECK-LABEL: llvm.func @key
// CHECK:         llvm.mlir.addressof @kvq_shared
// CHECK-COUNT-2: arith.trunci %{{.*}} : i32 to i8
// CHECK:         "llvm.nvvm.bar.warp.sync"
// CHECK:         scf.if
// CHECK-COUNT-4:   llvm.load %{{.*}} {alignment = 1 : i64} : !llvm.ptr -> i8
// CHECK:           llvm.store %{{.*}} {alignment = 1 : i64} : i8
// CHECK-NOT:     llvm.store %{{.*}} : i8
// CHECK:         "llvm.nvvm.bar.warp.sync"
llvm.func @key(%a: !llvm.ptr, %tile: !llvm.ptr, %token: i64) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #two}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  kvq.tile.store_codes %c, %tile, %token {record = #record, side = #kvq.side<key>}
    : (!kvq.fragment<codes>, !llvm.ptr, i64) -> ()
  llvm.return
}

// 8 bits: two fields of 32 channels, all lanes store one byte of each as it is.
// CHECK-LABEL: llvm.func @value
// CHECK:         "llvm.nvvm.bar.warp.sync"
// CHECK-NOT:     scf.if
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 1 : i64} : !llvm.ptr -> i8
// CHECK-NOT:     llvm.load %{{.*}} -> i8
// CHECK:         "llvm.nvvm.bar.warp.sync"
llvm.func @value(%a: !llvm.ptr, %tile: !llvm.ptr, %token: i64) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #eight}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  kvq.tile.store_codes %c, %tile, %token {record = #bytes, side = #kvq.side<value>}
    : (!kvq.fragment<codes>, !llvm.ptr, i64) -> ()
  llvm.return
}

// Lane 0 stores the parameters: K scale at 512, K zero at 516 of token 0, behind the codes.
// CHECK-LABEL: llvm.func @params
// CHECK:         scf.if
// CHECK:           llvm.getelementptr %{{.*}}[512]
// CHECK:           llvm.store %{{.*}} {alignment = 2 : i64} : i16
// CHECK:           llvm.getelementptr %{{.*}}[516]
// CHECK:           llvm.store %{{.*}} {alignment = 2 : i64} : i16
// CHECK-NOT:     llvm.store %{{.*}} : i16
llvm.func @params(%a: !llvm.ptr, %tile: !llvm.ptr, %token: i64) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #two}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  kvq.tile.store_params %p, %tile, %token {record = #record, side = #kvq.side<key>}
    : (!kvq.fragment<params>, !llvm.ptr, i64) -> ()
  llvm.return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#min = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#zero = #kvq.tile_side<dim = 128, bits = 4, group = 64, form = "zero", params = bf16>
#sym = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "sym", params = f16>
#wide = #kvq.tile_side<dim = 128, bits = 8, group = 128, form = "zero", params = f32>
#record = #kvq.tile_record<k = #min, v = #min>
#zeros = #kvq.tile_record<k = #zero, v = #zero>
#syms = #kvq.tile_record<k = #sym, v = #sym>
#wides = #kvq.tile_record<k = #wide, v = #wide>

// The scales of tokens g and g + 8 share a word, their zeros another. Nothing is selected when every token counts.
// CHECK-LABEL: llvm.func @full
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> i32
// CHECK-NOT:     llvm.load
// CHECK-NOT:     arith.select
llvm.func @full(%tile: !llvm.ptr) {
  %p = kvq.tile.load_params %tile {record = #record, side = #kvq.side<key>}
    : (!llvm.ptr) -> !kvq.fragment<params>
  llvm.return
}

// Tokens at and past %n: scale and offset are selected to 0, for each of two tokens of a lane in each of two tiles.
// CHECK-LABEL: llvm.func @valid
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-DAG:     %[[EIGHT:.*]] = arith.constant 8 : i32
// CHECK:         %[[VALID:.*]] = arith.trunci %{{.*}} : i64 to i32
// CHECK:         %[[G:.*]] = arith.shrui
// CHECK:         %[[HOLDS:.*]] = arith.cmpi slt, %[[G]], %[[VALID]] : i32
// CHECK-COUNT-2: arith.select %[[HOLDS]], %{{.*}}, %[[ZERO]] : f32
// CHECK:         %[[NEXT:.*]] = arith.addi %[[G]], %[[EIGHT]]
// CHECK:         %[[SECOND:.*]] = arith.cmpi slt, %[[NEXT]], %[[VALID]] : i32
// CHECK-COUNT-2: arith.select %[[SECOND]], %{{.*}}, %[[ZERO]] : f32
// CHECK-COUNT-4: arith.select %{{.*}}, %{{.*}}, %[[ZERO]] : f32
// CHECK-NOT:     arith.select
llvm.func @valid(%tile: !llvm.ptr, %n: i64) {
  %p = kvq.tile.load_params %tile, %n {record = #record, side = #kvq.side<value>, tiles = 2 : i64}
    : (!llvm.ptr, i64) -> !kvq.fragment<params>
  llvm.return
}

// offset = -(zero * scale), for two groups of two tokens.
// CHECK-LABEL: llvm.func @zero
// CHECK-COUNT-4: arith.negf
// CHECK-NOT:     arith.negf
llvm.func @zero(%tile: !llvm.ptr) {
  %p = kvq.tile.load_params %tile {record = #zeros, side = #kvq.side<key>}
    : (!llvm.ptr) -> !kvq.fragment<params>
  llvm.return
}

// CHECK-LABEL: llvm.func @sym
// CHECK:         llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> i32
// CHECK-NOT:     llvm.load
llvm.func @sym(%tile: !llvm.ptr) {
  %p = kvq.tile.load_params %tile {record = #syms, side = #kvq.side<key>}
    : (!llvm.ptr) -> !kvq.fragment<params>
  llvm.return
}

// f32 elements are words of their own.
// CHECK-LABEL: llvm.func @wide
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NOT:     llvm.load
llvm.func @wide(%tile: !llvm.ptr) {
  %p = kvq.tile.load_params %tile {record = #wides, side = #kvq.side<key>}
    : (!llvm.ptr) -> !kvq.fragment<params>
  llvm.return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#min = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#sym4 = #kvq.tile_side<dim = 128, bits = 4, group = 128, form = "sym", params = f16>
#sym8 = #kvq.tile_side<dim = 128, bits = 8, group = 128, form = "sym", params = f16>
#record = #kvq.tile_record<k = #min, v = #min>
#four = #kvq.tile_record<k = #sym4, v = #sym4>
#eight = #kvq.tile_record<k = #sym8, v = #sym8>

// offset * (sum of the query) + scale * dot, for the two tokens of a lane; nothing is masked.
// CHECK-LABEL: llvm.func @full
// CHECK:         mma.sync
// CHECK:         %[[DOT:.*]] = arith.sitofp %{{.*}} : i32 to f32
// CHECK:         %[[OFFSET:.*]] = arith.mulf
// CHECK:         math.fma %{{.*}}, %[[DOT]], %[[OFFSET]]
// CHECK:         math.fma
// CHECK-NOT:     math.fma
// CHECK-NOT:     arith.select
llvm.func @full(%tile: !llvm.ptr, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %kp = kvq.tile.load_params %tile {record = #record, side = #kvq.side<key>}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #record, queries = 4 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %kp, %q {record = #record, queries = 4 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  llvm.return
}

// Two tokens of each of two tiles: four scores. Parameters past %n are 0; no score is masked here.
// CHECK-LABEL: llvm.func @valid
// CHECK-NOT:     0xFF800000
// CHECK-COUNT-8: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK-COUNT-4: arith.sitofp
// CHECK-NOT:     arith.select
llvm.func @valid(%tile: !llvm.ptr, %w: !llvm.ptr, %n: i64) {
  %q = kvq.tile.load_query %w {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %kp = kvq.tile.load_params %tile, %n {record = #record, side = #kvq.side<key>, tiles = 2 : i64}
    : (!llvm.ptr, i64) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #record, queries = 4 : i64, tiles = 2 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %kp, %q {record = #record, queries = 4 : i64, tiles = 2 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  llvm.return
}

// The symmetric form stores no offset: the middle of the codes comes off the dot.
// CHECK-LABEL: llvm.func @middle
// CHECK-DAG:     %[[MIDDLE:.*]] = arith.constant -7.500000e+00 : f32
// CHECK:         %[[DOT:.*]] = math.fma %{{.*}}, %[[MIDDLE]], %{{.*}}
// CHECK:         arith.mulf %{{.*}}, %[[DOT]]
llvm.func @middle(%tile: !llvm.ptr, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #four, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %kp = kvq.tile.load_params %tile {record = #four, side = #kvq.side<key>}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #four, queries = 4 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %kp, %q {record = #four, queries = 4 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  llvm.return
}

// 8-bit codes have theirs at 0.
// CHECK-LABEL: llvm.func @signed
// CHECK:         %[[MIDDLE:.*]] = arith.constant -0.000000e+00 : f32
// CHECK:         math.fma %{{.*}}, %[[MIDDLE]], %{{.*}}
llvm.func @signed(%tile: !llvm.ptr, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #eight, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %kp = kvq.tile.load_params %tile {record = #eight, side = #kvq.side<key>}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #eight, queries = 4 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %kp, %q {record = #eight, queries = 4 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  llvm.return
}

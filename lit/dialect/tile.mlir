// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

#key = #kvq.tile_side<dim = 128, bits = 8, group = 32, form = "sym", params = bf16>
#value = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #key, v = #value>

// CHECK:       #[[RECORD:.*]] = #kvq.tile_record<k = <dim = 128, bits = 8, group = 32, form = "sym", params = bf16>
// CHECK-SAME:    v = <dim = 64, bits = 2, group = 64, form = "min", params = f16>>

// One tile, every token valid: neither `tiles` nor `valid` is written.
// CHECK-LABEL: func.func @one
func.func @one(%tile: !llvm.ptr, %w: !llvm.ptr) {
  // CHECK: kvq.tile.load_query %{{.*}} {queries = 3 : i64, record = #[[RECORD]]} : (!llvm.ptr) -> !kvq.fragment<query>
  %q = kvq.tile.load_query %w {record = #record, queries = 3 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  // CHECK: kvq.tile.load_params %{{[a-z0-9]+}} {record = #[[RECORD]], side = #kvq.side<key>} : (!llvm.ptr)
  %p = kvq.tile.load_params %tile {record = #record, side = #kvq.side<key>} : (!llvm.ptr) -> !kvq.fragment<params>
  // CHECK: kvq.tile.dot %{{.*}} {queries = 3 : i64, record = #[[RECORD]]} : (!llvm.ptr, !kvq.fragment<query>)
  %d = kvq.tile.dot %tile, %q {record = #record, queries = 3 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  // CHECK: kvq.tile.score %{{.*}} : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %s = kvq.tile.score %d, %p, %q {record = #record, queries = 3 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  // CHECK: kvq.tile.init_softmax {queries = 3 : i64} : () -> !kvq.fragment<softmax>
  %t = kvq.tile.init_softmax {queries = 3 : i64} : () -> !kvq.fragment<softmax>
  // CHECK: kvq.tile.init_output {queries = 3 : i64, record = #[[RECORD]]} : () -> !kvq.fragment<output>
  %o = kvq.tile.init_output {record = #record, queries = 3 : i64} : () -> !kvq.fragment<output>
  return
}

// Several tiles, the last partly filled; integer weights; fp32 sums behind an address.
// CHECK-LABEL: func.func @step
func.func @step(%tile: !llvm.ptr, %w: !llvm.ptr, %partial: !llvm.ptr, %valid: i64) {
  %q = kvq.tile.load_query %w {record = #record, queries = 3 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  // CHECK: kvq.tile.load_params %{{.*}}, %{{.*}} {record = #[[RECORD]], side = #kvq.side<key>, tiles = 4 : i64} : (!llvm.ptr, i64)
  %p = kvq.tile.load_params %tile, %valid {record = #record, side = #kvq.side<key>, tiles = 4 : i64}
    : (!llvm.ptr, i64) -> !kvq.fragment<params>
  // CHECK: kvq.tile.dot {{.*}}tiles = 4 : i64
  %d = kvq.tile.dot %tile, %q {record = #record, queries = 3 : i64, tiles = 4 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  // CHECK: kvq.tile.score {{.*}}tiles = 4 : i64} : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>)
  %s = kvq.tile.score %d, %p, %q {record = #record, queries = 3 : i64, tiles = 4 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  // CHECK: kvq.tile.init_softmax {queries = 3 : i64, record = #[[RECORD]]}
  %t = kvq.tile.init_softmax {queries = 3 : i64, record = #record} : () -> !kvq.fragment<softmax>
  // CHECK: kvq.tile.init_output %{{.*}} {queries = 3 : i64, record = #[[RECORD]]} : (!llvm.ptr) -> !kvq.fragment<output>
  %o = kvq.tile.init_output %partial {record = #record, queries = 3 : i64} : (!llvm.ptr) -> !kvq.fragment<output>
  // CHECK: kvq.tile.weigh_integer %{{.*}} {queries = 3 : i64, record = #[[RECORD]], tiles = 4 : i64}
  // CHECK-SAME: -> (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<weights>)
  %t1, %o1, %weights = kvq.tile.weigh_integer %t, %o, %s, %p {record = #record, queries = 3 : i64, tiles = 4 : i64}
    : (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<scores>, !kvq.fragment<params>)
    -> (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<weights>)
  // CHECK: kvq.tile.accumulate {{.*}}tiles = 4 : i64
  %o2 = kvq.tile.accumulate %o1, %tile, %weights {record = #record, queries = 3 : i64, tiles = 4 : i64}
    : (!kvq.fragment<output>, !llvm.ptr, !kvq.fragment<weights>) -> !kvq.fragment<output>
  // CHECK: kvq.tile.flush
  kvq.tile.flush %o2, %t1, %partial {record = #record, queries = 3 : i64}
    : (!kvq.fragment<output>, !kvq.fragment<softmax>, !llvm.ptr) -> ()
  return
}

// CHECK-LABEL: func.func @merge
func.func @merge(%partials: !llvm.ptr, %count: i64, %index: i64) -> (f32, f32) {
  // CHECK: kvq.tile.merge_warps %{{.*}} : (!llvm.ptr, i64, i64) -> (!kvq.tile_row<64>, f32, f32)
  %row, %max, %sum = kvq.tile.merge_warps %partials, %count, %index {record = #record, queries = 3 : i64}
    : (!llvm.ptr, i64, i64) -> (!kvq.tile_row<64>, f32, f32)
  // CHECK: kvq.tile.store_partial %{{.*}} {queries = 3 : i64} : (!kvq.tile_row<64>, f32, f32, !llvm.ptr, i64) -> ()
  kvq.tile.store_partial %row, %max, %sum, %partials, %index {queries = 3 : i64}
    : (!kvq.tile_row<64>, f32, f32, !llvm.ptr, i64) -> ()
  // CHECK: kvq.tile.merge_partials %{{.*}} {queries = 3 : i64, stride = 792 : i64}
  %all, %most, %total = kvq.tile.merge_partials %row, %partials, %count, %index {stride = 792 : i64, queries = 3 : i64}
    : (!kvq.tile_row<64>, !llvm.ptr, i64, i64) -> (!kvq.tile_row<64>, f32, f32)
  // CHECK: kvq.tile.normalize %{{.*}} : (!kvq.tile_row<64>, f32, f32, f32) -> (!kvq.tile_row<64>, f32, f32)
  %out, %lse, %mass = kvq.tile.normalize %all, %most, %total, %most
    : (!kvq.tile_row<64>, f32, f32, f32) -> (!kvq.tile_row<64>, f32, f32)
  // CHECK: kvq.tile.store_row %{{.*}} {element = bf16}
  kvq.tile.store_row %out, %partials {element = bf16} : (!kvq.tile_row<64>, !llvm.ptr) -> ()
  return %lse, %mass : f32, f32
}

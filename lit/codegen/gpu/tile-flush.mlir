// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// The accumulators of 8 m-tiles join their parts, high * 256 + low, and leave for shared memory. Sums over the eight lanes of
// a query take three exchanges; four lanes write reference and sum of their query.
// CHECK-LABEL: llvm.func @flush
// CHECK-DAG:     %[[HIGH:.*]] = arith.constant 2.560000e+02 : f32
// CHECK-DAG:     %[[FOUR:.*]] = arith.constant 4 : i32
// CHECK-DAG:     %[[EIGHT:.*]] = arith.constant 8 : i32
// CHECK-DAG:     %[[SIXTEEN:.*]] = arith.constant 16 : i32
// CHECK-COUNT-8: "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32
// CHECK-COUNT-16: math.fma %{{.*}}, %[[HIGH]], %{{.*}} : f32
// CHECK-NOT:     math.fma %{{.*}}, %[[HIGH]]
// CHECK-NOT:     shfl
// CHECK:         shfl.sync.bfly.f32"(%{{.*}}, %{{.*}}, %[[FOUR]], %{{.*}})
// CHECK-NOT:     shfl
// CHECK:         shfl.sync.bfly.f32"(%{{.*}}, %{{.*}}, %[[EIGHT]], %{{.*}})
// CHECK-NOT:     shfl
// CHECK:         shfl.sync.bfly.f32"(%{{.*}}, %{{.*}}, %[[SIXTEEN]], %{{.*}})
// CHECK-NOT:     shfl
// CHECK:         shfl.sync.bfly.f32"(%{{.*}}, %{{.*}}, %[[FOUR]], %{{.*}})
// CHECK-NOT:     shfl
// CHECK:         shfl.sync.bfly.f32"(%{{.*}}, %{{.*}}, %[[EIGHT]], %{{.*}})
// CHECK-NOT:     shfl
// CHECK:         shfl.sync.bfly.f32"(%{{.*}}, %{{.*}}, %[[SIXTEEN]], %{{.*}})
// CHECK-NOT:     shfl
// CHECK:         scf.if
// CHECK-COUNT-2:   llvm.store %{{.*}} {alignment = 4 : i64} : f32
// CHECK-NOT:     llvm.store
llvm.func @flush(%tile: !llvm.ptr, %w: !llvm.ptr, %partial: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %kp = kvq.tile.load_params %tile {record = #record, side = #kvq.side<key>, tiles = 2 : i64}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #record, queries = 4 : i64, tiles = 2 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %kp, %q {record = #record, queries = 4 : i64, tiles = 2 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %vp = kvq.tile.load_params %tile {record = #record, side = #kvq.side<value>, tiles = 2 : i64}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %t0 = kvq.tile.init_softmax {queries = 4 : i64, record = #record} : () -> !kvq.fragment<softmax>
  %o0 = kvq.tile.init_output %partial {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<output>
  %t1, %o1, %weights = kvq.tile.weigh_integer %t0, %o0, %s, %vp {record = #record, queries = 4 : i64, tiles = 2 : i64}
    : (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<scores>, !kvq.fragment<params>)
    -> (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<weights>)
  %o2 = kvq.tile.accumulate %o1, %tile, %weights {record = #record, queries = 4 : i64, tiles = 2 : i64}
    : (!kvq.fragment<output>, !llvm.ptr, !kvq.fragment<weights>) -> !kvq.fragment<output>
  kvq.tile.flush %o2, %t1, %partial {record = #record, queries = 4 : i64}
    : (!kvq.fragment<output>, !kvq.fragment<softmax>, !llvm.ptr) -> ()
  llvm.return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// Weights are made under the references that there are. A loop that seldom runs again moves references and sums: while a
// weight of any lane has more than 16 bits, the largest of some query too few, or the accumulators took too many tokens.
// CHECK-LABEL: llvm.func @weigh
// CHECK-DAG:     %[[MAGIC:.*]] = arith.constant 0x4B000000 : f32
// CHECK-DAG:     %[[LARGEST:.*]] = arith.constant 0x4B00FFFF : f32
// CHECK-DAG:     %[[TOKENS:.*]] = arith.constant 32704 : i32
// The least of the largest weights: 11 bits.
// CHECK-DAG:     %[[LEAST:.*]] = arith.constant 0x4B0007FF : f32
// CHECK:         scf.while
// Two tokens of each of four tiles: p, and the weight in the low bits of 2^23 + p * scale.
// CHECK:           %[[P:.*]] = llvm.inline_asm {{.*}}"ex2.approx.ftz.f32
// CHECK:           math.fma %[[P]], %{{.*}}, %[[MAGIC]]
// CHECK-COUNT-7:   "ex2.approx.ftz.f32
// CHECK-DAG:       %[[FULL:.*]] = arith.cmpi sgt, %{{.*}}, %[[TOKENS]] : i32
// CHECK-DAG:       %[[LARGE:.*]] = arith.cmpf ogt, %{{.*}}, %[[LARGEST]] : f32
// CHECK-DAG:       %{{.*}} = arith.andi %[[LARGE]], %{{.*}} : i1
// CHECK:           %[[ENOUGH:.*]] = arith.cmpf ogt, %{{.*}}, %[[LEAST]] : f32
// CHECK:           llvm.call_intrinsic "llvm.nvvm.vote.ballot.sync"(%{{.*}}, %[[ENOUGH]])
// A query that does not exist has no say: of its bit in the mask of those that do.
// CHECK:           %[[BAD:.*]] = arith.ori %[[MINE:.*]], %[[FULL]]
// CHECK:           llvm.call_intrinsic "llvm.nvvm.vote.any.sync"(%{{.*}}, %[[BAD]])
// CHECK:           %[[AGAIN:.*]] = llvm.intr.expect
// CHECK:           scf.condition(%[[AGAIN]])
// The new reference comes from the largest score over the lanes of a query; the accumulators leave for fp32 sums.
// Only n-tiles that the vote concerns move.
// CHECK:         } do {
// CHECK:           scf.if
// CHECK:           "lg2.approx.ftz.f32
// CHECK-COUNT-3:   shfl.sync.bfly.f32
// CHECK:           "ex2.approx.ftz.f32
// What rounding took from the codes comes back: exact over rounded sum of the weights.
// CHECK:           arith.divf
// CHECK:           scf.yield
// CHECK-NOT:     scf.while
llvm.func @weigh(%tile: !llvm.ptr, %w: !llvm.ptr, %partial: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %kp = kvq.tile.load_params %tile {record = #record, side = #kvq.side<key>, tiles = 4 : i64}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #record, queries = 4 : i64, tiles = 4 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %kp, %q {record = #record, queries = 4 : i64, tiles = 4 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %vp = kvq.tile.load_params %tile {record = #record, side = #kvq.side<value>, tiles = 4 : i64}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %t0 = kvq.tile.init_softmax {queries = 4 : i64, record = #record} : () -> !kvq.fragment<softmax>
  %o0 = kvq.tile.init_output %partial {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<output>
  %t1, %o1, %weights = kvq.tile.weigh_integer %t0, %o0, %s, %vp {record = #record, queries = 4 : i64, tiles = 4 : i64}
    : (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<scores>, !kvq.fragment<params>)
    -> (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<weights>)
  llvm.return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// p times the row for each query, in the order of channels.
// CHECK-LABEL: func.func @accumulate
// CHECK-SAME:    (%[[ROWS:[a-z0-9]+]]: !llvm.ptr, %[[BEGIN:[a-z0-9]+]]: i64, %[[END:[a-z0-9]+]]: i64,
// CHECK-DAG:     %[[ROW:.*]] = arith.constant 128 : i64
// CHECK-DAG:     %[[EIGHT:.*]] = arith.constant 8 : i64
// CHECK-DAG:     %[[TOKENS:.*]] = arith.constant 16 : i64
// Of the softmax.
// CHECK:         arith.fptosi {{.*}} vector<16xi32>
// Only where some row counts.
// CHECK:         arith.cmpi slt, %[[BEGIN]], %[[END]] : i64
// CHECK:         scf.if
// CHECK:         scf.for %[[TOKEN:.*]] = %{{.*}} to %[[TOKENS]]
// CHECK:           arith.minsi %[[TOKEN]],
// CHECK:           arith.muli %{{.*}}, %[[ROW]]
// CHECK-COUNT-4:   arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK:           scf.for
// CHECK:             %[[P:.*]] = vector.broadcast
// CHECK-COUNT-4:     math.fma %[[P]],
// CHECK-NOT:         math.fma
// Then channel g and each eighth on join a lane of the sums over codes: two words of four slots.
// CHECK:         scf.for
// CHECK:           scf.for %[[G:.*]] = %{{.*}} to %[[EIGHT]]
// CHECK-COUNT-8:     arith.addf %{{.*}} : f32
// CHECK-NOT:         arith.addf
func.func @accumulate(%rows: !llvm.ptr, %begin: i64, %end: i64, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 2 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %begin, %end, %q {record = #record, queries = 2 : i64, element = f16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %t = kvq.tile.init_softmax {queries = 2 : i64} : () -> !kvq.fragment<softmax>
  %o = kvq.tile.init_output {record = #record, queries = 2 : i64} : () -> !kvq.fragment<output>
  %t1, %probs, %factors = kvq.tile.softmax %t, %s {queries = 2 : i64}
    : (!kvq.fragment<softmax>, !kvq.fragment<scores>)
    -> (!kvq.fragment<softmax>, !kvq.fragment<probs>, !kvq.fragment<factors>)
  %o1 = kvq.tile.accumulate_rows %o, %rows, %begin, %end, %probs {record = #record, queries = 2 : i64, element = f16}
    : (!kvq.fragment<output>, !llvm.ptr, i64, i64, !kvq.fragment<probs>) -> !kvq.fragment<output>
  return
}

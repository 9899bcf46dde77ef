// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// The query leaves the order of codes, eight channels at a time; then a row at a time is widened for all queries.
// CHECK-LABEL: func.func @dot
// CHECK-SAME:    (%[[ROWS:[a-z0-9]+]]: !llvm.ptr, %[[BEGIN:[a-z0-9]+]]: i64, %[[END:[a-z0-9]+]]: i64,
// CHECK-DAG:     %[[ROW:.*]] = arith.constant 128 : i64
// CHECK-DAG:     %[[TOKENS:.*]] = arith.constant 16 : i64
// CHECK-DAG:     %[[FIFTEEN:.*]] = arith.constant 15 : i64
// CHECK:         scf.for
// CHECK-COUNT-8: llvm.store %{{.*}} : vector<8xf32>
// CHECK-NOT:     llvm.store
// A row that does not count is not read: the nearest one that does stands in.
// CHECK:         scf.for %[[TOKEN:.*]] = %{{.*}} to %[[TOKENS]]
// CHECK:           %[[LAST:.*]] = arith.subi %[[END]],
// CHECK:           %[[ATMOST:.*]] = arith.minsi %[[TOKEN]], %[[LAST]]
// CHECK:           %[[BEFORE:.*]] = arith.cmpi slt, %[[ATMOST]], %[[BEGIN]]
// CHECK:           %[[NEAREST:.*]] = arith.select %[[BEFORE]], %[[BEGIN]], %[[ATMOST]]
// CHECK:           %[[READ:.*]] = arith.andi %[[NEAREST]], %[[FIFTEEN]] : i64
// CHECK:           arith.muli %[[READ]], %[[ROW]]
// CHECK-COUNT-4:   -> vector<16xi16>
// CHECK:           scf.for
// CHECK-COUNT-4:     math.fma %{{.*}} : vector<16xf32>
// CHECK-NOT:         math.fma
// CHECK:             llvm.store %{{.*}} : f32
func.func @dot(%rows: !llvm.ptr, %begin: i64, %end: i64, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 2 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %begin, %end, %q {record = #record, queries = 2 : i64, element = bf16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// CHECK-LABEL: func.func @mask
// CHECK-SAME:    %[[BEGIN:[a-z0-9]+]]: i64, %[[END:[a-z0-9]+]]: i64,
// CHECK-DAG:     %[[MASKED:.*]] = arith.constant dense<0xFF800000> : vector<16xf32>
// CHECK-DAG:     %[[ROW:.*]] = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]>
// CHECK:         %[[FIRST:.*]] = arith.trunci %[[BEGIN]]
// CHECK:         %[[FIRSTS:.*]] = vector.broadcast %[[FIRST]]
// CHECK:         %[[BEFORE:.*]] = arith.cmpi sgt, %[[FIRSTS]], %[[ROW]]
// CHECK:         %[[AFTER:.*]] = arith.trunci %[[END]]
// CHECK:         %[[AFTERS:.*]] = vector.broadcast %[[AFTER]]
// CHECK:         %[[BELOW:.*]] = arith.cmpi sgt, %[[AFTERS]], %[[ROW]]
// CHECK:         scf.for
// CHECK:           %[[KEPT:.*]] = arith.select %[[BELOW]], %{{.*}}, %[[MASKED]]
// CHECK:           arith.select %[[BEFORE]], %[[MASKED]], %[[KEPT]]
func.func @mask(%rows: !llvm.ptr, %begin: i64, %end: i64, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 2 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %begin, %end, %q {record = #record, queries = 2 : i64, element = bf16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %m = kvq.tile.mask_rows %s, %begin, %end {queries = 2 : i64}
    : (!kvq.fragment<scores>, i64, i64) -> !kvq.fragment<scores>
  return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// Of each query the first token and the one after the last; tokens count from the position of the tile.
// CHECK-LABEL: func.func @mask
// CHECK-DAG:     %[[MASKED:.*]] = arith.constant dense<0xFF800000> : vector<16xf32>
// CHECK-DAG:     %[[TOKENS:.*]] = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]>
// CHECK:         arith.div{{.i}}
// CHECK:         arith.subi
// CHECK:         %[[AT:.*]] = arith.addi %{{.*}}, %[[TOKENS]] : vector<16xi32>
// CHECK:         scf.for
// CHECK:           %[[BEFORE:.*]] = arith.cmpi slt, %[[AT]], %{{.*}} : vector<16xi32>
// CHECK:           %[[BELOW:.*]] = arith.cmpi slt, %[[AT]], %{{.*}} : vector<16xi32>
// CHECK:           %[[LOW:.*]] = arith.select %[[BELOW]], %{{.*}}, %[[MASKED]]
// CHECK:           arith.select %[[BEFORE]], %[[MASKED]], %[[LOW]]
func.func @mask(%w: !llvm.ptr, %rows: !llvm.ptr, %row: i64, %ratio: i64, %position: i64, %window: i64, %first: i64) {
  %q = kvq.tile.load_query %w {record = #record, queries = 2 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %row, %first, %q {record = #record, queries = 2 : i64, element = bf16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %b = kvq.tile.row_bounds %row, %ratio, %position, %window {queries = 2 : i64}
    : (i64, i64, i64, i64) -> !kvq.fragment<bounds>
  %m = kvq.tile.mask_scores %s, %b, %first {queries = 2 : i64}
    : (!kvq.fragment<scores>, !kvq.fragment<bounds>, i64) -> !kvq.fragment<scores>
  return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// Row lane % 4 of the block: its query token, and with the window its first token, not below 0.
// CHECK-LABEL: llvm.func @mask
// CHECK-DAG:     %[[MASKED:.*]] = arith.constant 0xFF800000 : f32
// CHECK-DAG:     %[[EIGHT:.*]] = arith.constant 8 : i32
// CHECK:         arith.div{{.i}} %{{.*}} : i32
// CHECK:         arith.subi %{{.*}}, %{{.*}} : i64
// CHECK:         arith.select
// The two tokens of a lane, eight apart: one before the first token counts as little as one after the last.
// CHECK:         %[[BEFORE0:.*]] = arith.cmpi slt, %[[AT0:.*]], %{{.*}} : i32
// CHECK:         %[[BELOW0:.*]] = arith.cmpi slt, %[[AT0]], %{{.*}} : i32
// CHECK:         %[[LOW0:.*]] = arith.select %[[BELOW0]], %{{.*}}, %[[MASKED]] : f32
// CHECK:         %[[OUT0:.*]] = arith.select %[[BEFORE0]], %[[MASKED]], %[[LOW0]] : f32
// CHECK:         llvm.store %[[OUT0]], %{{.*}} : f32
// CHECK:         %[[AT1:[0-9]+]] = arith.addi %{{.*}}, %[[EIGHT]] : i32
// CHECK:         %[[BEFORE1:.*]] = arith.cmpi slt, %[[AT1]], %{{.*}} : i32
// CHECK:         %[[BELOW1:.*]] = arith.cmpi slt, %[[AT1]], %{{.*}} : i32
// CHECK:         %[[LOW1:.*]] = arith.select %[[BELOW1]], %{{.*}}, %[[MASKED]] : f32
// CHECK:         %[[OUT1:.*]] = arith.select %[[BEFORE1]], %[[MASKED]], %[[LOW1]] : f32
// CHECK:         llvm.store %[[OUT1]], %{{.*}} : f32
// CHECK-NOT:     %[[MASKED]]
// CHECK:         llvm.return
llvm.func @mask(%w: !llvm.ptr, %rows: !llvm.ptr, %row: i64, %ratio: i64, %position: i64, %window: i64, %first: i64) {
  %q = kvq.tile.load_query %w {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %row, %first, %q {record = #record, queries = 4 : i64, element = bf16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %b = kvq.tile.row_bounds %row, %ratio, %position, %window {queries = 4 : i64}
    : (i64, i64, i64, i64) -> !kvq.fragment<bounds>
  %m = kvq.tile.mask_scores %s, %b, %first {queries = 4 : i64}
    : (!kvq.fragment<scores>, !kvq.fragment<bounds>, i64) -> !kvq.fragment<scores>
  llvm.return
}

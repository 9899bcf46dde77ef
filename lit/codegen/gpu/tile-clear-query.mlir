// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#small = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#narrow = #kvq.tile_record<k = #small, v = #small>
#side = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// D = 64: four fragment words of 32 lanes. A query has the eight lanes of its column; the warp's four times eight lanes
// clear one word each. Step, sum and shift of the query lie after the 512 bytes of fragments, 12 bytes a query.
// CHECK-LABEL: llvm.func @narrow
// CHECK-SAME:    %[[W:[a-z0-9]+]]: !llvm.ptr, %[[I:[a-z0-9]+]]: i64
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-DAG:     %[[FOUR:.*]] = arith.constant 4 : i64
// CHECK-DAG:     %[[EIGHT:.*]] = arith.constant 8 : i64
// CHECK-DAG:     %[[LANES:.*]] = arith.constant 32 : i64
// CHECK-DAG:     %[[NUMBERS:.*]] = arith.constant 512 : i64
// CHECK-DAG:     %[[ROW:.*]] = arith.constant 12 : i64
// CHECK:         %[[WORD:.*]] = arith.divui %[[LANE:.*]], %[[EIGHT]]
// CHECK:         %[[IN:.*]] = arith.remui %[[LANE]], %[[EIGHT]]
// CHECK:         %[[QUERY:.*]] = arith.remui %[[I]], %[[FOUR]]
// CHECK:         %[[FIRST:.*]] = arith.muli %[[QUERY]], %[[EIGHT]]
// CHECK:         %[[COLUMN:.*]] = arith.addi %[[FIRST]], %[[IN]]
// CHECK:         %[[LINE:.*]] = arith.muli %{{.*}}, %[[LANES]]
// CHECK:         %[[AT:.*]] = arith.addi %[[LINE]], %[[COLUMN]]
// CHECK:         %[[SOME:.*]] = arith.cmpi slt, %[[WORD]], %[[FOUR]]
// CHECK:         scf.if %[[SOME]]
// CHECK:           %[[BYTE:.*]] = arith.muli %[[AT]], %[[FOUR]]
// CHECK:           %[[TO:.*]] = llvm.getelementptr %[[W]][%[[BYTE]]]
// CHECK:           llvm.store %[[ZERO]], %[[TO]] {alignment = 4 : i64} : i32
// CHECK-NOT:     llvm.store
// CHECK:         %[[SKIP:.*]] = arith.muli %[[I]], %[[ROW]]
// CHECK:         %[[STEP_AT:.*]] = arith.addi %[[SKIP]], %[[NUMBERS]]
// CHECK:         %[[STEP:.*]] = llvm.getelementptr %[[W]][%[[STEP_AT]]]
// CHECK:         llvm.store %[[ZERO]], %[[STEP]] {alignment = 4 : i64} : i32
// CHECK:         %[[SUM:.*]] = llvm.getelementptr %{{.*}}[4]
// CHECK:         llvm.store %[[ZERO]], %[[SUM]] {alignment = 4 : i64} : i32
// CHECK:         %[[SHIFT:.*]] = llvm.getelementptr %{{.*}}[8]
// CHECK:         llvm.store %[[ZERO]], %[[SHIFT]] {alignment = 4 : i64} : i32
// CHECK-NOT:     llvm.store
// CHECK:         llvm.return
llvm.func @narrow(%w: !llvm.ptr, %i: i64) {
  kvq.tile.clear_query %w, %i {record = #narrow, queries = 4 : i64} : (!llvm.ptr, i64) -> ()
  llvm.return
}

// D = 128: eight words, four at once.
// CHECK-LABEL: llvm.func @wide
// CHECK-COUNT-2: scf.if
// CHECK-NOT:     scf.if
// CHECK:         llvm.return
llvm.func @wide(%w: !llvm.ptr, %i: i64) {
  kvq.tile.clear_query %w, %i {record = #record, queries = 4 : i64} : (!llvm.ptr, i64) -> ()
  llvm.return
}

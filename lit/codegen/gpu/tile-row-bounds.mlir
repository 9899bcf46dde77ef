// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

// Eight rows are two n-tiles. A lane holds the bounds of row lane % 4 of each: rows 0 to 3 first, then rows 4 to 7.
// Row i is of query token (first row + i) / ratio. The token after the last is one more than its position; the first is
// `window` before that, and not below 0.
// CHECK-LABEL: llvm.func @bounds
// CHECK-SAME:    %[[ROW:[a-z0-9]+]]: i64, %[[RATIO:[a-z0-9]+]]: i64,
// CHECK-SAME:    %[[POSITION:[a-z0-9]+]]: i64, %[[WINDOW:[a-z0-9]+]]: i64
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : i64
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : i64
// CHECK-DAG:     %[[THREE:.*]] = arith.constant 3 : i32
// CHECK-DAG:     %[[FOUR:.*]] = arith.constant 4 : i32
// CHECK:         %[[BOUNDS:.*]] = llvm.alloca
// CHECK:         %[[ROW32:.*]] = arith.trunci %[[ROW]]
// CHECK:         %[[COLUMN:.*]] = arith.andi %{{.*}}, %[[THREE]]
// CHECK:         %[[MINE:.*]] = arith.addi %[[ROW32]], %[[COLUMN]]
// CHECK:         %[[RATIO32:.*]] = arith.trunci %[[RATIO]]
// CHECK:         %[[TOKEN:.*]] = arith.divui %[[MINE]], %[[RATIO32]]
// CHECK:         %[[TOKEN64:.*]] = arith.extsi %[[TOKEN]]
// CHECK:         %[[AT:.*]] = arith.addi %[[POSITION]], %[[TOKEN64]]
// CHECK:         %[[END:.*]] = arith.addi %[[AT]], %[[ONE]]
// CHECK:         %[[BEGIN:.*]] = arith.subi %[[END]], %[[WINDOW]]
// CHECK:         %[[BELOW:.*]] = arith.cmpi slt, %[[BEGIN]], %[[ZERO]]
// CHECK:         %[[FIRST:.*]] = arith.select %[[BELOW]], %[[ZERO]], %[[BEGIN]]
// CHECK:         %[[FIRST32:.*]] = arith.trunci %[[FIRST]]
// CHECK:         llvm.store %[[FIRST32]], %[[BOUNDS]]
// CHECK:         %[[END32:.*]] = arith.trunci %[[END]]
// CHECK:         %[[END_AT:.*]] = llvm.getelementptr %[[BOUNDS]][4]
// CHECK:         llvm.store %[[END32]], %[[END_AT]]
// CHECK:         %[[NEXT:.*]] = arith.addi %[[MINE]], %[[FOUR]]
// CHECK:         arith.divui %[[NEXT]], %{{.*}}
// CHECK:         %[[FIRST_AT:.*]] = llvm.getelementptr %[[BOUNDS]][8]
// CHECK:         llvm.store %{{.*}}, %[[FIRST_AT]]
// CHECK:         %[[LAST_AT:.*]] = llvm.getelementptr %[[BOUNDS]][12]
// CHECK:         llvm.store %{{.*}}, %[[LAST_AT]]
// CHECK-NOT:     llvm.store
// CHECK:         llvm.return
llvm.func @bounds(%row: i64, %ratio: i64, %position: i64, %window: i64) {
  %b = kvq.tile.row_bounds %row, %ratio, %position, %window {queries = 8 : i64}
    : (i64, i64, i64, i64) -> !kvq.fragment<bounds>
  llvm.return
}

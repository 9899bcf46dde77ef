// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// Row i is of query token (first row + i) / ratio. The token after the last is one more than its position; the first is
// `window` before that, and not below 0. First tokens, then ends: 4 bytes a row, rows of the other half 8 bytes on.
// CHECK-LABEL: func.func @bounds
// CHECK-SAME:    %[[ROW:[a-z0-9]+]]: i64, %[[RATIO:[a-z0-9]+]]: i64,
// CHECK-SAME:    %[[POSITION:[a-z0-9]+]]: i64, %[[WINDOW:[a-z0-9]+]]: i64
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : i64
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : i64
// CHECK-DAG:     %[[ROWS:.*]] = arith.constant 2 : i64
// CHECK-DAG:     %[[HALF:.*]] = arith.constant 8 : i64
// CHECK:         %[[BOUNDS:.*]] = llvm.alloca
// CHECK:         scf.for %[[I:.*]] = %[[ZERO]] to %[[ROWS]] step %[[ONE]]
// CHECK:           %[[MINE:.*]] = arith.addi %[[ROW]], %[[I]]
// CHECK:           %[[TOKEN:.*]] = arith.divui %[[MINE]], %[[RATIO]]
// CHECK:           %[[AT:.*]] = arith.addi %[[POSITION]], %[[TOKEN]]
// CHECK:           %[[END:.*]] = arith.addi %[[AT]], %[[ONE]]
// CHECK:           %[[BEGIN:.*]] = arith.subi %[[END]], %[[WINDOW]]
// CHECK:           %[[BELOW:.*]] = arith.cmpi slt, %[[BEGIN]], %[[ZERO]]
// CHECK:           %[[FIRST:.*]] = arith.select %[[BELOW]], %[[ZERO]], %[[BEGIN]]
// CHECK:           %[[FIRST_AT:.*]] = llvm.getelementptr %[[BOUNDS]]
// CHECK:           %[[FIRST32:.*]] = arith.trunci %[[FIRST]]
// CHECK:           llvm.store %[[FIRST32]], %[[FIRST_AT]]
// CHECK:           %[[BYTE:.*]] = arith.addi %{{.*}}, %[[HALF]]
// CHECK:           %[[END_AT:.*]] = llvm.getelementptr %[[BOUNDS]][%[[BYTE]]]
// CHECK:           %[[END32:.*]] = arith.trunci %[[END]]
// CHECK:           llvm.store %[[END32]], %[[END_AT]]
func.func @bounds(%row: i64, %ratio: i64, %position: i64, %window: i64) {
  %b = kvq.tile.row_bounds %row, %ratio, %position, %window {queries = 2 : i64}
    : (i64, i64, i64, i64) -> !kvq.fragment<bounds>
  return
}

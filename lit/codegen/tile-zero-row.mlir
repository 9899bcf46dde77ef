// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @zero
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<16xf32>
// CHECK-DAG:     %[[ROW:.*]] = llvm.alloca
// CHECK:         scf.for
// CHECK:           llvm.store %[[ZERO]]
func.func @zero(%a: !llvm.ptr) {
  %r = kvq.tile.zero_row : () -> !kvq.tile_row<32>
  return
}

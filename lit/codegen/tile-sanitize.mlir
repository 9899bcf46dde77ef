// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @sanitize
// CHECK-DAG:     %[[MAX:.*]] = arith.constant dense<6.550400e+04> : vector<16xf32>
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<16xf32>
// CHECK:         %[[NUMBER:.*]] = arith.cmpf oeq, %[[X:.*]], %[[X]]
// CHECK:         arith.select %[[NUMBER]], %{{.*}}, %[[ZERO]]
func.func @sanitize(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %s = kvq.tile.sanitize %r {element = f16} : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  return
}

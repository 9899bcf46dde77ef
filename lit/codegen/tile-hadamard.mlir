// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// Strides below 16 stay inside a vector; the others pair vectors. One multiplication ends.
// CHECK-LABEL: func.func @whole
// CHECK-DAG:     %[[NORM:.*]] = arith.constant dense<0.176776692> : vector<16xf32>
// CHECK:         vector.shuffle %{{.*}} [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14]
// CHECK:         vector.shuffle %{{.*}} [0, 17, 2, 19, 4, 21, 6, 23, 8, 25, 10, 27, 12, 29, 14, 31]
// CHECK:         vector.shuffle %{{.*}} [8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7]
// CHECK:         llvm.load
// CHECK:         llvm.load
// CHECK:         arith.addf %[[A:[0-9]+]], %[[B:[0-9]+]] : vector<16xf32>
// CHECK:         arith.subf %[[A]], %[[B]] : vector<16xf32>
// CHECK:         arith.mulf %{{.*}}, %[[NORM]]
func.func @whole(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<32>
  %h = kvq.tile.hadamard %r {order = 32 : i64} : (!kvq.tile_row<32>) -> !kvq.tile_row<32>
  return
}

// CHECK-LABEL: func.func @blocks
// CHECK-DAG:     %[[NORM:.*]] = arith.constant dense<5.000000e-01> : vector<16xf32>
// CHECK-COUNT-4: vector.shuffle
// CHECK-NOT:     vector.shuffle
// CHECK:         arith.mulf %{{.*}}, %[[NORM]]
func.func @blocks(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<32>
  %h = kvq.tile.hadamard %r {order = 4 : i64} : (!kvq.tile_row<32>) -> !kvq.tile_row<32>
  return
}

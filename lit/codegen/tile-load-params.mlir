// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

#zero = #kvq.tile_side<dim = 64, bits = 4, group = 32, form = "zero", params = bf16>
#sym = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "sym", params = f32>
#other = #kvq.tile_record<k = #zero, v = #sym>

// One load of the 128 bytes that hold all parameters of the tile; stale tokens are selected to 0 before any arithmetic.
// CHECK-LABEL: func.func @min
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<16xf32>
// CHECK:         %[[MASK:.*]] = arith.cmpi {{.*}} : vector<16xi32>
// CHECK:         %[[REGION:.*]] = llvm.load %{{.*}} : !llvm.ptr -> vector<64xi16>
// CHECK:         vector.shuffle %[[REGION]], %[[REGION]] [0, 8, 16, 24, 32, 40, 48, 56, 1, 9, 17, 25, 33, 41, 49, 57]
// CHECK:         %[[S:.*]] = arith.extf
// CHECK-NEXT:    arith.select %[[MASK]], %[[S]], %[[ZERO]]
// CHECK:         [2, 10, 18, 26, 34, 42, 50, 58, 3, 11, 19, 27, 35, 43, 51, 59]
// CHECK-NOT:     arith.mulf
// CHECK:         return
func.func @min(%tile: !llvm.ptr, %valid: i64) {
  %p = kvq.tile.load_params %tile, %valid {record = #record, side = #kvq.side<key>}
    : (!llvm.ptr, i64) -> !kvq.fragment<params>
  return
}

// CHECK-LABEL: func.func @zero
// CHECK-COUNT-2: arith.negf
func.func @zero(%tile: !llvm.ptr, %valid: i64) {
  %p = kvq.tile.load_params %tile, %valid {record = #other, side = #kvq.side<key>}
    : (!llvm.ptr, i64) -> !kvq.fragment<params>
  return
}

// CHECK-LABEL: func.func @sym
// CHECK-DAG:     %[[MID:.*]] = arith.constant dense<-1.500000e+00> : vector<16xf32>
// CHECK:         arith.mulf %{{.*}}, %[[MID]]
func.func @sym(%tile: !llvm.ptr, %valid: i64) {
  %p = kvq.tile.load_params %tile, %valid {record = #other, side = #kvq.side<value>}
    : (!llvm.ptr, i64) -> !kvq.fragment<params>
  return
}

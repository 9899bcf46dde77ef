// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// Rows ascend inside the loop; product and sum are rounded apart, so codes equal the oracle's.
// CHECK-LABEL: func.func @ordered
// CHECK:         scf.for {{.*}} iter_args
// CHECK:           %[[P:.*]] = arith.mulf
// CHECK:           arith.addf %{{.*}}, %[[P]] : vector<16xf32>
// CHECK-NOT:     math.fma
func.func @ordered(%a: !llvm.ptr, %m: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %h = kvq.tile.rotate %r, %m : (!kvq.tile_row<64>, !llvm.ptr) -> !kvq.tile_row<64>
  return
}

// CHECK-LABEL: func.func @ordered_transpose
// CHECK:         vector.from_elements
// CHECK-NOT:     math.fma
func.func @ordered_transpose(%a: !llvm.ptr, %m: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %h = kvq.tile.rotate %r, %m {transpose} : (!kvq.tile_row<64>, !llvm.ptr) -> !kvq.tile_row<64>
  return
}

// CHECK-LABEL: func.func @any_order
// CHECK:         math.fma
func.func @any_order(%a: !llvm.ptr, %m: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %h = kvq.tile.rotate %r, %m {transpose, any_order} : (!kvq.tile_row<64>, !llvm.ptr) -> !kvq.tile_row<64>
  return
}

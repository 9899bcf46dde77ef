// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu="f16c=false" --canonicalize | FileCheck %s

// Without F16C the conversions are integer arithmetic: nothing is left for a library to convert.
// CHECK-LABEL: func.func @f16
// CHECK-NOT:     arith.extf
// CHECK:         arith.uitofp %{{.*}} : vector<16xi32> to vector<16xf32>
// CHECK-NOT:     arith.truncf
// CHECK:         arith.trunci %{{.*}} : vector<16xi32> to vector<16xi16>
// CHECK:         return
func.func @f16(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f16} : (!llvm.ptr) -> !kvq.tile_row<32>
  kvq.tile.store_row %r, %a {element = f16} : (!kvq.tile_row<32>, !llvm.ptr) -> ()
  return
}

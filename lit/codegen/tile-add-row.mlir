// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @add_row
// CHECK:         arith.addf %{{.*}}, %{{.*}} : vector<16xf32>
func.func @add_row(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<32>
  %s = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<32>
  %c = kvq.tile.add_row %r, %s : (!kvq.tile_row<32>, !kvq.tile_row<32>) -> !kvq.tile_row<32>
  return
}

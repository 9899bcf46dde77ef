// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @scale_row
// CHECK:         %[[F:.*]] = vector.broadcast %{{.*}} : f32 to vector<16xf32>
// CHECK:         arith.mulf %{{.*}}, %[[F]] : vector<16xf32>
func.func @scale_row(%a: !llvm.ptr, %scale: f32) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<32>
  %c = kvq.tile.scale_row %r, %scale : (!kvq.tile_row<32>, f32) -> !kvq.tile_row<32>
  return
}

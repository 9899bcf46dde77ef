// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @add_mean
// CHECK:         %[[F:.*]] = vector.broadcast %{{.*}} : f32 to vector<16xf32>
// CHECK:           %[[P:.*]] = arith.mulf %[[F]], %{{.*}} : vector<16xf32>
// CHECK:           arith.addf %{{.*}}, %[[P]] : vector<16xf32>
func.func @add_mean(%mean: !llvm.ptr, %mass: f32) {
  %r = kvq.tile.zero_row : () -> !kvq.tile_row<32>
  %c = kvq.tile.add_mean %r, %mean, %mass : (!kvq.tile_row<32>, !llvm.ptr, f32) -> !kvq.tile_row<32>
  return
}

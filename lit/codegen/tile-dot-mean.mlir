// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @dot_mean
// CHECK:         %[[LANES:.*]] = scf.for {{.*}} iter_args
// CHECK:           math.fma
// CHECK:         vector.extract_strided_slice %[[LANES]] {offsets = [8], sizes = [8]
// CHECK-NOT:     vector.reduction
// CHECK:         return %{{.*}} : f32
func.func @dot_mean(%a: !llvm.ptr, %mean: !llvm.ptr) -> f32 {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %d = kvq.tile.dot_mean %r, %mean : (!kvq.tile_row<64>, !llvm.ptr) -> f32
  return %d : f32
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @f16
// CHECK:         %[[H:.*]] = arith.truncf %{{.*}} : vector<16xf32> to vector<16xf16>
// CHECK:         arith.extf %[[H]] : vector<16xf16> to vector<16xf32>
func.func @f16(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %s = kvq.tile.round_row %r {element = f16} : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  return
}

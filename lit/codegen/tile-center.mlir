// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @center
// CHECK-SAME:    %[[A:[a-z0-9]+]]: !llvm.ptr, %[[MEAN:[a-z0-9]+]]: !llvm.ptr
// CHECK:         scf.for
// CHECK:         scf.for
// CHECK:           %[[ADDRESS:.*]] = llvm.getelementptr %[[MEAN]]
// CHECK:           %[[M:.*]] = llvm.load %[[ADDRESS]]
// CHECK:           arith.subf %{{.*}}, %[[M]] : vector<16xf32>
func.func @center(%a: !llvm.ptr, %mean: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<32>
  %c = kvq.tile.center %r, %mean : (!kvq.tile_row<32>, !llvm.ptr) -> !kvq.tile_row<32>
  return
}

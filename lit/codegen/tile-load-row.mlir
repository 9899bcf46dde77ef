// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// bf16 widens by a shift of its bits, whatever the CPU has.
// CHECK-LABEL: func.func @bf16
// CHECK:         %[[ROW:.*]] = llvm.alloca %{{.*}} x i8 {alignment = 64 : i64}
// CHECK:         scf.for
// CHECK:           llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr -> vector<16xi16>
// CHECK:           %[[BITS:.*]] = arith.extui %{{.*}} : vector<16xi16> to vector<16xi32>
// CHECK:           arith.shli %[[BITS]]
// CHECK:           llvm.store %{{.*}} : vector<16xf32>
func.func @bf16(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = bf16} : (!llvm.ptr) -> !kvq.tile_row<32>
  return
}

// CHECK-LABEL: func.func @f16
// CHECK:         arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK-NOT:     llvm.alloca
func.func @f16(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f16} : (!llvm.ptr) -> !kvq.tile_row<32>
  return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @f16
// CHECK:         %[[H:.*]] = arith.truncf %{{.*}} : vector<16xf32> to vector<16xf16>
// CHECK:         %[[BITS:.*]] = arith.bitcast %[[H]] : vector<16xf16> to vector<16xi16>
// CHECK:         llvm.store %[[BITS]], %{{.*}} {alignment = 2 : i64}
func.func @f16(%a: !llvm.ptr) {
  %r = kvq.tile.zero_row : () -> !kvq.tile_row<32>
  kvq.tile.store_row %r, %a {element = f16} : (!kvq.tile_row<32>, !llvm.ptr) -> ()
  return
}

// bf16 rounds on the bits: add 0x7fff and the last kept bit; a NaN is made quiet instead.
// CHECK-LABEL: func.func @bf16
// CHECK-DAG:     %[[HALF:.*]] = arith.constant dense<32767> : vector<16xi32>
// CHECK:         arith.addi %{{.*}}, %[[HALF]]
// CHECK:         arith.select
// CHECK:         llvm.store %{{.*}} : vector<16xi16>
func.func @bf16(%a: !llvm.ptr) {
  %r = kvq.tile.zero_row : () -> !kvq.tile_row<32>
  kvq.tile.store_row %r, %a {element = bf16} : (!kvq.tile_row<32>, !llvm.ptr) -> ()
  return
}

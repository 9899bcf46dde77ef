// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

// Channels ascend: those of slot 0 by lane, then those of slot 1. Each goes to all lanes, which add it to their two
// columns; product and sum are rounded apart, so codes equal the oracle's.
// CHECK-LABEL: llvm.func @rotate
// CHECK-DAG:     %[[ROW:.*]] = arith.constant 256 : i64
// CHECK:         scf.for
// CHECK:           llvm.call_intrinsic "llvm.nvvm.shfl.sync.idx.f32"
// CHECK:           arith.muli %{{.*}}, %[[ROW]]
// CHECK:           %[[P:.*]] = arith.mulf
// CHECK:           arith.addf %{{.*}}, %[[P]] : f32
// CHECK:           arith.mulf
// CHECK-NOT:       arith.mulf
// CHECK:         scf.for
// CHECK-NOT:     scf.for
// CHECK-NOT:     math.fma
llvm.func @rotate(%a: !llvm.ptr, %m: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %h = kvq.tile.rotate %r, %m : (!kvq.tile_row<64>, !llvm.ptr) -> !kvq.tile_row<64>
  llvm.return
}

// The transposed matrix: lanes are rows apart, a step goes one float on.
// CHECK-LABEL: llvm.func @transpose
// CHECK-DAG:     %[[ROW:.*]] = arith.constant 256 : i64
// CHECK-DAG:     %[[FLOAT:.*]] = arith.constant 4 : i64
// CHECK:         arith.muli %{{.*}}, %[[ROW]]
// CHECK:         scf.for
// CHECK-NOT:       arith.muli %{{.*}}, %[[ROW]]
// CHECK:           arith.muli %{{.*}}, %[[FLOAT]]
// CHECK-NOT:       arith.muli %{{.*}}, %[[ROW]]
llvm.func @transpose(%a: !llvm.ptr, %m: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = bf16} : (!llvm.ptr) -> !kvq.tile_row<64>
  %h = kvq.tile.rotate %r, %m {transpose} : (!kvq.tile_row<64>, !llvm.ptr) -> !kvq.tile_row<64>
  llvm.return
}

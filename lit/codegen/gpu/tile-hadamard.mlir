// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

// Strides 1 to 16 lie between lanes, 32 and 64 between the channels of a lane. In a lane whose bit of the stride is set
// the difference is partner - mine.
// CHECK-LABEL: llvm.func @across
// CHECK-DAG:     %[[NORM:.*]] = arith.constant 0.0883883461 : f32
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : i32
// CHECK-DAG:     %[[SIXTEEN:.*]] = arith.constant 16 : i32
// CHECK:         %[[UPPER:.*]] = arith.cmpi eq
// CHECK:         %[[PARTNER:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"(%{{.*}}, %[[MINE:.*]], %[[ONE]], %{{.*}})
// CHECK:         %[[MINUS:.*]] = arith.negf %[[MINE]]
// CHECK:         %[[SIGNED:.*]] = arith.select %[[UPPER]], %[[MINUS]], %[[MINE]]
// CHECK:         arith.addf %[[PARTNER]], %[[SIGNED]]
// CHECK-COUNT-15: shfl.sync.bfly.f32
// CHECK-COUNT-4: shfl.sync.bfly.f32"(%{{.*}}, %{{.*}}, %[[SIXTEEN]], %{{.*}})
// CHECK-NOT:     shfl
// CHECK-COUNT-4: arith.subf
// CHECK-NOT:     arith.subf
// CHECK-COUNT-4: arith.mulf %{{.*}}, %[[NORM]]
llvm.func @across(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<128>
  %h = kvq.tile.hadamard %r {order = 128 : i64} : (!kvq.tile_row<128>) -> !kvq.tile_row<128>
  kvq.tile.store_row %h, %a {element = f32} : (!kvq.tile_row<128>, !llvm.ptr) -> ()
  llvm.return
}

// Blocks of 4 in a row of 96: two strides, three channels of each lane.
// CHECK-LABEL: llvm.func @block
// CHECK-DAG:     %[[HALF:.*]] = arith.constant 5.000000e-01 : f32
// CHECK-COUNT-6: shfl.sync.bfly.f32
// CHECK-NOT:     shfl
// CHECK-COUNT-3: arith.mulf %{{.*}}, %[[HALF]]
llvm.func @block(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<96>
  %h = kvq.tile.hadamard %r {order = 4 : i64} : (!kvq.tile_row<96>) -> !kvq.tile_row<96>
  kvq.tile.store_row %h, %a {element = f32} : (!kvq.tile_row<96>, !llvm.ptr) -> ()
  llvm.return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

// Lane l holds channels l, l + 32, ...: D = 96 takes three loads of neighbouring lanes, 64 bytes apart in bf16.
// CHECK-LABEL: llvm.func @load
// CHECK-DAG:     %[[LANES:.*]] = arith.constant 31 : i32
// CHECK-DAG:     %[[BYTES:.*]] = arith.constant 2 : i64
// CHECK:         %[[THREAD:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.tid.x"
// CHECK:         %[[LANE:.*]] = arith.andi %[[THREAD]], %[[LANES]]
// CHECK:         %[[WIDE:.*]] = arith.extsi %[[LANE]]
// CHECK:         %[[OFFSET:.*]] = arith.muli %[[WIDE]], %[[BYTES]]
// CHECK:         %[[FIRST:.*]] = llvm.getelementptr %{{.*}}[%[[OFFSET]]]
// CHECK:         llvm.load %[[FIRST]] {alignment = 2 : i64} : !llvm.ptr -> i16
// CHECK:         %[[SECOND:.*]] = llvm.getelementptr %[[FIRST]][64]
// CHECK:         llvm.load %[[SECOND]]
// CHECK:         %[[THIRD:.*]] = llvm.getelementptr %[[FIRST]][128]
// CHECK:         llvm.load %[[THIRD]] {{.*}} -> i16
// CHECK-NOT:     -> i16
llvm.func @load(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = bf16} : (!llvm.ptr) -> !kvq.tile_row<96>
  llvm.return
}

// CHECK-LABEL: llvm.func @store
// CHECK-COUNT-3: llvm.store %{{.*}} {alignment = 2 : i64} : i16
// CHECK-NOT:     : i16, !llvm.ptr
llvm.func @store(%a: !llvm.ptr) {
  %r = kvq.tile.zero_row : () -> !kvq.tile_row<96>
  kvq.tile.store_row %r, %a {element = bf16} : (!kvq.tile_row<96>, !llvm.ptr) -> ()
  llvm.return
}

// CHECK-LABEL: llvm.func @means
// CHECK-COUNT-2: arith.subf
// CHECK-COUNT-2: arith.mulf
// CHECK-NOT:     math.fma
llvm.func @means(%a: !llvm.ptr, %mean: !llvm.ptr, %mass: f32) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c = kvq.tile.center %r, %mean : (!kvq.tile_row<64>, !llvm.ptr) -> !kvq.tile_row<64>
  %m = kvq.tile.add_mean %c, %mean, %mass : (!kvq.tile_row<64>, !llvm.ptr, f32) -> !kvq.tile_row<64>
  kvq.tile.store_row %m, %a {element = f32} : (!kvq.tile_row<64>, !llvm.ptr) -> ()
  llvm.return
}

// Sums of lanes meet in a butterfly of five exchanges.
// CHECK-LABEL: llvm.func @dot_mean
// CHECK-COUNT-2: math.fma
// CHECK-COUNT-5: shfl.sync.bfly.f32
// CHECK-NOT:     shfl
llvm.func @dot_mean(%a: !llvm.ptr, %mean: !llvm.ptr) -> f32 {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %d = kvq.tile.dot_mean %r, %mean : (!kvq.tile_row<64>, !llvm.ptr) -> f32
  llvm.return %d : f32
}

// A NaN, the only value that differs from itself, becomes 0.
// CHECK-LABEL: llvm.func @others
// CHECK-COUNT-2: arith.addf
// CHECK-COUNT-2: arith.truncf %{{.*}} : f32 to f16
// CHECK:         arith.cmpf oeq, %[[X:.*]], %[[X]] : f32
// CHECK-COUNT-2: arith.mulf
llvm.func @others(%a: !llvm.ptr, %scale: f32) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %s = kvq.tile.add_row %r, %r : (!kvq.tile_row<64>, !kvq.tile_row<64>) -> !kvq.tile_row<64>
  %t = kvq.tile.round_row %s {element = f16} : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  %u = kvq.tile.sanitize %t {element = bf16} : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  %v = kvq.tile.scale_row %u, %scale : (!kvq.tile_row<64>, f32) -> !kvq.tile_row<64>
  kvq.tile.store_row %v, %a {element = f32} : (!kvq.tile_row<64>, !llvm.ptr) -> ()
  llvm.return
}

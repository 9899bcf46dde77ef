// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

// The threshold is built bit by bit: 31 counts over the warp of the magnitudes below a candidate.
// CHECK-LABEL: llvm.func @order_statistic
// CHECK-DAG:     %[[BITS:.*]] = arith.constant 31 : i64
// CHECK-DAG:     %[[MAGNITUDE:.*]] = arith.constant 2147483647 : i32
// CHECK-DAG:     %[[INDEX:.*]] = arith.constant 61 : i32
// CHECK-COUNT-2: arith.andi %{{.*}}, %[[MAGNITUDE]]
// CHECK:         %[[FOUND:.*]] = scf.for %{{.*}} to %[[BITS]] {{.*}} iter_args(%[[PREFIX:.*]] =
// CHECK:           %[[BELOW:.*]] = llvm.call_intrinsic "llvm.nvvm.redux.sync.add"
// CHECK:           %[[MORE:.*]] = arith.cmpi sgt, %[[BELOW]], %[[INDEX]]
// CHECK:           arith.select %[[MORE]], %[[PREFIX]], %{{.*}} : i32
// CHECK:         arith.bitcast %[[FOUND]] : i32 to f32
llvm.func @order_statistic(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c = kvq.tile.clip %r {kind = #kvq.tile_clip<order_statistic>, scope = 64 : i64, index = 61 : i64, value = 0.96 : f64}
    : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  llvm.return
}

// Per group: each scope has its own range, two butterflies of five exchanges.
// CHECK-LABEL: llvm.func @ratio
// CHECK-COUNT-20: shfl.sync.bfly.f32
// CHECK-NOT:     shfl
llvm.func @ratio(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c = kvq.tile.clip %r {kind = #kvq.tile_clip<ratio>, scope = 32 : i64, index = 0 : i64, value = 0.5 : f64}
    : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  llvm.return
}

// CHECK-LABEL: llvm.func @constant
// CHECK-DAG:     %[[HIGH:.*]] = arith.constant 2.500000e+00 : f32
// CHECK-DAG:     %[[LOW:.*]] = arith.constant -2.500000e+00 : f32
// CHECK-NOT:     shfl
// CHECK:         arith.cmpf ogt, %{{.*}}, %[[LOW]]
// CHECK:         arith.cmpf olt, %{{.*}}, %[[HIGH]]
llvm.func @constant(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c = kvq.tile.clip %r {kind = #kvq.tile_clip<constant>, scope = 64 : i64, index = 0 : i64, value = 2.5 : f64}
    : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  kvq.tile.store_row %c, %a {element = f32} : (!kvq.tile_row<64>, !llvm.ptr) -> ()
  llvm.return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// 31 bits are decided by counting; no sort.
// CHECK-LABEL: func.func @order_statistic
// CHECK-DAG:     %[[STEPS:.*]] = arith.constant 31 : i64
// CHECK-DAG:     %[[INDEX:.*]] = arith.constant 61 : i32
// CHECK:         scf.for {{.*}} to %[[STEPS]] {{.*}} iter_args
// CHECK:           arith.shli
// CHECK:           arith.cmpi slt, %{{.*}}, %{{.*}} : vector<16xi32>
// CHECK:           arith.cmpi sgt, %{{.*}}, %[[INDEX]] : i32
// CHECK:         arith.bitcast %{{.*}} : i32 to f32
// CHECK:         arith.negf
func.func @order_statistic(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %s = kvq.tile.clip %r {kind = #kvq.tile_clip<order_statistic>, scope = 64 : i64, index = 61 : i64, value = 0.96 : f64}
    : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  return
}

// CHECK-LABEL: func.func @ratio
// CHECK:         arith.mulf %{{.*}} : f32
// CHECK:         arith.mulf %{{.*}} : f32
func.func @ratio(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %s = kvq.tile.clip %r {kind = #kvq.tile_clip<ratio>, scope = 32 : i64, index = 0 : i64, value = 0.9 : f64}
    : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  return
}

// CHECK-LABEL: func.func @constant
// CHECK-DAG:     arith.constant dense<2.500000e+00>
// CHECK-DAG:     arith.constant dense<-2.500000e+00>
func.func @constant(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %s = kvq.tile.clip %r {kind = #kvq.tile_clip<constant>, scope = 64 : i64, index = 0 : i64, value = 2.5 : f64}
    : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  return
}

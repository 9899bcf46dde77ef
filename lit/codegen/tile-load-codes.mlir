// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#k = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#v = #kvq.tile_side<dim = 64, bits = 4, group = 64, form = "sym", params = f32>
#record = #kvq.tile_record<k = #k, v = #v>

// A channel at a time: two bits of a byte, the scale and the zero of its group.
// CHECK-LABEL: func.func @keys
// CHECK-DAG:     %[[MASK:.*]] = arith.constant 3 : i64
// CHECK-DAG:     %[[DIM:.*]] = arith.constant 64 : i64
// CHECK:         scf.for {{.*}} to %[[DIM]]
// CHECK:           llvm.load %{{.*}} {alignment = 1 : i64} : !llvm.ptr -> i8
// CHECK:           %[[BITS:.*]] = arith.shrui
// CHECK:           %[[CODE:.*]] = arith.andi %[[BITS]], %[[MASK]]
// CHECK:           %[[REAL:.*]] = arith.sitofp %[[CODE]]
// CHECK:           %[[SCALED:.*]] = arith.mulf %{{.*}}, %[[REAL]] : f32
// CHECK:           arith.addf %[[SCALED]], %{{.*}} : f32
func.func @keys(%tile: !llvm.ptr, %token: i64, %a: !llvm.ptr) {
  %r = kvq.tile.load_codes %tile, %token {record = #record, side = #kvq.side<key>} : (!llvm.ptr, i64) -> !kvq.tile_row<64>
  kvq.tile.store_row %r, %a {element = f32} : (!kvq.tile_row<64>, !llvm.ptr) -> ()
  return
}

// The symmetric form takes the middle of its codes, 7.5, from the scale.
// CHECK-LABEL: func.func @values
// CHECK-DAG:     %[[MIDDLE:.*]] = arith.constant -7.500000e+00 : f32
// CHECK:         arith.mulf %{{.*}}, %[[MIDDLE]] : f32
func.func @values(%tile: !llvm.ptr, %token: i64, %a: !llvm.ptr) {
  %r = kvq.tile.load_codes %tile, %token {record = #record, side = #kvq.side<value>} : (!llvm.ptr, i64) -> !kvq.tile_row<64>
  kvq.tile.store_row %r, %a {element = f32} : (!kvq.tile_row<64>, !llvm.ptr) -> ()
  return
}

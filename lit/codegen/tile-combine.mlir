// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @combine
// CHECK-SAME:    %[[P:[a-z0-9]+]]: !llvm.ptr, %[[N:[a-z0-9]+]]: i64
// CHECK-DAG:     %[[LOWEST:.*]] = arith.constant 0xFF800000 : f32
// CHECK:         scf.for {{.*}} to %[[N]] {{.*}} iter_args
// CHECK:         scf.for {{.*}} to %[[N]] {{.*}} iter_args
// CHECK:         %[[EMPTY:.*]] = arith.cmpi eq, %[[N]]
// CHECK:         arith.divf %{{.*}} : vector<16xf32>
// CHECK:         arith.select %[[EMPTY]], %[[LOWEST]], %{{.*}} : f32
func.func @combine(%p: !llvm.ptr, %n: i64, %i: i64) -> (f32, f32) {
  %r, %lse, %mass = kvq.tile.combine %p, %n, %i {stride = 576 : i64, queries = 2 : i64}
    : (!llvm.ptr, i64, i64) -> (!kvq.tile_row<64>, f32, f32)
  return %lse, %mass : f32, f32
}

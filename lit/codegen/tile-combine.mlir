// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @combine
// The largest maximum, and whether a split attended anything at all; the sink joins maximum and denominator, no row.
// CHECK-SAME:    %[[P:[a-z0-9]+]]: !llvm.ptr, %[[N:[a-z0-9]+]]: i64, %{{[a-z0-9]+}}: i64, %[[SINK:[a-z0-9]+]]: f32
// CHECK-DAG:     %[[LOWEST:.*]] = arith.constant 0xFF800000 : f32
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK:         %[[MOST:.*]] = scf.for {{.*}} to %[[N]] {{.*}} iter_args
// CHECK:         %[[SOME:.*]] = arith.cmpf ogt, %[[MOST]], %[[LOWEST]] : f32
// CHECK:         arith.cmpf ogt, %[[SINK]], %[[MOST]] : f32
// CHECK:         %[[SUM:.*]] = scf.for {{.*}} to %[[N]] {{.*}} iter_args
// CHECK:         arith.subf %[[SINK]], %{{.*}} : f32
// CHECK:         arith.addf %[[SUM]], %{{.*}} : f32
// CHECK:         arith.divf %{{.*}} : vector<16xf32>
// CHECK:         arith.select %[[SOME]], %{{.*}}, %[[LOWEST]] : f32
// CHECK:         %[[MASS:.*]] = arith.divf %[[SUM]], %{{.*}} : f32
// CHECK:         arith.select %[[SOME]], %[[MASS]], %[[ZERO]] : f32
func.func @combine(%p: !llvm.ptr, %n: i64, %i: i64, %sink: f32) -> (f32, f32) {
  %r, %lse, %mass = kvq.tile.combine %p, %n, %i, %sink {stride = 576 : i64, queries = 2 : i64}
    : (!llvm.ptr, i64, i64, f32) -> (!kvq.tile_row<64>, f32, f32)
  return %lse, %mass : f32, f32
}

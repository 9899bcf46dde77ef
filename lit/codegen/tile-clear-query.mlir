// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// The workspace of 2 queries of 64 channels, as in tile-query.mlir: all 64 values of the query, its sum and its shift
// are cleared, and nothing else is written.
// CHECK-LABEL: func.func @clear
// CHECK-SAME:    %[[W:[a-z0-9]+]]: !llvm.ptr, %[[I:[a-z0-9]+]]: i64
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-DAG:     %[[FROM:.*]] = arith.constant 0 : i64
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : i64
// CHECK-DAG:     %[[FOUR:.*]] = arith.constant 4 : i64
// CHECK-DAG:     %[[CHANNELS:.*]] = arith.constant 64 : i64
// CHECK-DAG:     %[[BYTES:.*]] = arith.constant 256 : i64
// CHECK-DAG:     %[[SUMS:.*]] = arith.constant 512 : i64
// CHECK-DAG:     %[[SHIFTS:.*]] = arith.constant 520 : i64
// CHECK:         %[[SKIP:.*]] = arith.muli %[[I]], %[[BYTES]]
// CHECK:         %[[VALUES:.*]] = llvm.getelementptr %[[W]][%[[SKIP]]]
// CHECK:         scf.for %[[C:.*]] = %[[FROM]] to %[[CHANNELS]] step %[[ONE]]
// CHECK:           %[[BYTE:.*]] = arith.muli %[[C]], %[[FOUR]]
// CHECK:           %[[VALUE:.*]] = llvm.getelementptr %[[VALUES]][%[[BYTE]]]
// CHECK:           llvm.store %[[ZERO]], %[[VALUE]] {{.*}} : f32
// CHECK-NOT:     llvm.store
// CHECK:         %[[SUM_AT:.*]] = arith.addi %{{.*}}, %[[SUMS]]
// CHECK:         %[[SUM:.*]] = llvm.getelementptr %[[W]][%[[SUM_AT]]]
// CHECK:         llvm.store %[[ZERO]], %[[SUM]] {{.*}} : f32
// CHECK-NOT:     llvm.store
// CHECK:         %[[SHIFT_AT:.*]] = arith.addi %{{.*}}, %[[SHIFTS]]
// CHECK:         %[[SHIFT:.*]] = llvm.getelementptr %[[W]][%[[SHIFT_AT]]]
// CHECK:         llvm.store %[[ZERO]], %[[SHIFT]] {{.*}} : f32
// CHECK-NOT:     llvm.store
// CHECK:         return
func.func @clear(%w: !llvm.ptr, %i: i64) {
  kvq.tile.clear_query %w, %i {record = #record, queries = 2 : i64} : (!llvm.ptr, i64) -> ()
  return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// The workspace of 2 queries of 64 channels: values, then sums at float 128, then shifts at float 130.
// CHECK-LABEL: func.func @store
// CHECK-DAG:     %[[SUMS:.*]] = arith.constant 512 : i64
// CHECK:         llvm.load %{{.*}} : !llvm.ptr -> vector<8xf32>
// CHECK:         llvm.store %{{.*}} : vector<8xf32>
// CHECK:         arith.addi %{{.*}}, %[[SUMS]]
// CHECK:         return
// CHECK-LABEL: func.func @shift
// CHECK-SAME:    %[[W:[a-z0-9]+]]: !llvm.ptr
// CHECK-DAG:     %[[AT:.*]] = arith.constant 520 : i64
// CHECK:         arith.addi %{{.*}}, %[[AT]]
// CHECK:         llvm.load %{{.*}} : !llvm.ptr -> f32
func.func @store(%a: !llvm.ptr, %w: !llvm.ptr, %shift: f32, %i: i64) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  kvq.tile.store_query %r, %shift, %w, %i {record = #record, queries = 2 : i64}
    : (!kvq.tile_row<64>, f32, !llvm.ptr, i64) -> ()
  return
}
func.func @shift(%w: !llvm.ptr, %i: i64) -> f32 {
  %s = kvq.tile.query_shift %w, %i {record = #record, queries = 2 : i64} : (!llvm.ptr, i64) -> f32
  return %s : f32
}

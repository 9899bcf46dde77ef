// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// The largest magnitude over the warp gives the step. D = 128: each lane has four channels, each a byte of the high and
// one of the low parts, 16 bytes apart. The row gets step, sum and shift.
// CHECK-LABEL: llvm.func @store
// CHECK-SAME:    %[[SHIFT:[a-z0-9]+]]: f32
// CHECK:         llvm.call_intrinsic "llvm.nvvm.redux.sync.umax"
// CHECK:         arith.divf
// CHECK:         arith.shrsi
// CHECK:         llvm.store %{{.*}}, %[[HIGH:.*]] {alignment = 1 : i64} : i8
// CHECK:         %[[LOW:.*]] = llvm.getelementptr %[[HIGH]][16]
// CHECK:         llvm.store %{{.*}}, %[[LOW]] {alignment = 1 : i64} : i8
// CHECK-COUNT-6: {alignment = 1 : i64} : i8
// CHECK-NOT:     : i8, !llvm.ptr
// CHECK:         llvm.call_intrinsic "llvm.nvvm.redux.sync.add"
// CHECK-NOT:     redux
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : f32
// CHECK:         llvm.store %[[SHIFT]], %{{.*}} {alignment = 4 : i64} : f32
// CHECK-NOT:     llvm.store
llvm.func @store(%a: !llvm.ptr, %w: !llvm.ptr, %shift: f32, %i: i64) {
  %r = kvq.tile.load_row %a {element = bf16} : (!llvm.ptr) -> !kvq.tile_row<128>
  kvq.tile.store_query %r, %shift, %w, %i {record = #record, queries = 3 : i64}
    : (!kvq.tile_row<128>, f32, !llvm.ptr, i64) -> ()
  llvm.return
}

// A row that does not exist: 8 words of four lanes' columns are cleared, and step, sum and shift.
// CHECK-LABEL: llvm.func @clear
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-COUNT-5: llvm.store %[[ZERO]], %{{.*}} {alignment = 4 : i64} : i32
// CHECK-NOT:     llvm.store
llvm.func @clear(%w: !llvm.ptr, %i: i64) {
  kvq.tile.clear_query %w, %i {record = #record, queries = 4 : i64} : (!llvm.ptr, i64) -> ()
  llvm.return
}

// Eight B fragments of a word per lane, 128 bytes apart; then step, sum and shift of query lane % 4, and a bit for each
// query of the n-tile whose step is not 0.
// CHECK-LABEL: llvm.func @load
// CHECK-COUNT-8: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> i32
// CHECK-NOT:     -> i32
// CHECK:         arith.remui
// CHECK-COUNT-3: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK:         arith.cmpf ogt
// CHECK:         llvm.call_intrinsic "llvm.nvvm.vote.ballot.sync"
llvm.func @load(%w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 3 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  llvm.return
}

// CHECK-LABEL: llvm.func @shift
// CHECK:         llvm.load %{{.*}} : !llvm.ptr -> f32
llvm.func @shift(%w: !llvm.ptr, %i: i64) -> f32 {
  %s = kvq.tile.query_shift %w, %i {record = #record, queries = 3 : i64} : (!llvm.ptr, i64) -> f32
  llvm.return %s : f32
}

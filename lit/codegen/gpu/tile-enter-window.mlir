// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// The lane's own place in the sums leads to those of its channels, which other lanes clear and read.
// CHECK-LABEL: llvm.func @enter
// CHECK-DAG:     %[[ROOM:.*]] = arith.constant -1.400000e+01 : f32
// CHECK-DAG:     %[[SLICE:.*]] = arith.constant 132 : i64
// CHECK-DAG:     %[[CHANNEL:.*]] = arith.constant 16 : i64
// CHECK-DAG:     %[[FOUR:.*]] = arith.constant 4 : i64
// CHECK:         %[[OWN:.*]] = llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr -> !llvm.ptr
// CHECK:         arith.muli %{{.*}}, %[[SLICE]] : i64
// CHECK:         arith.muli %{{.*}}, %[[CHANNEL]] : i64
// CHECK:         arith.muli %{{.*}}, %[[FOUR]] : i64
// CHECK:         %[[SUMS:.*]] = llvm.getelementptr %[[OWN]]
// CHECK:         llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"
// The frame, the sum of p, and for each half of each m-tile the sum of the two parts.
// CHECK:         %[[FRAME:.*]] = arith.addf %{{.*}}, %[[ROOM]] : f32
// CHECK:         llvm.store %[[FRAME]], %[[AT:.*]] {alignment
// CHECK:         llvm.store %{{.*}} : f32
// CHECK:         arith.addf
// CHECK:         llvm.store %{{.*}}, %[[SUMS]] {alignment = 4 : i64} : f32
// Channels 2, 4 and 6 of the first lane, then channel 32, four slices on.
// CHECK:         llvm.getelementptr %[[SUMS]][32]
// CHECK:         llvm.getelementptr %[[SUMS]][64]
// CHECK:         llvm.getelementptr %[[SUMS]][96]
// CHECK:         llvm.getelementptr %[[SUMS]][528]
// CHECK-COUNT-4: llvm.store %{{.*}} : f32
// CHECK:         llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"
// CHECK-NOT:     llvm.store
llvm.func @enter(%partial: !llvm.ptr) {
  %t, %o = kvq.tile.init_window {record = #record, queries = 4 : i64}
    : () -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
  %t0 = kvq.tile.init_softmax {queries = 4 : i64, record = #record} : () -> !kvq.fragment<softmax>
  %o0 = kvq.tile.init_output %partial {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<output>
  %t3, %o3 = kvq.tile.enter_window %t0, %o0, %t, %o {record = #record, queries = 4 : i64}
    : (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
    -> (!kvq.fragment<softmax>, !kvq.fragment<output>)
  llvm.return
}

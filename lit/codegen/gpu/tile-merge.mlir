// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#k = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#v = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #k, v = #v>

// Two loops over the warps: the largest reference, then rows and sums brought to it.
// CHECK-LABEL: llvm.func @warps
// CHECK-DAG:     %[[NOTHING:.*]] = arith.constant 0xFF800000 : f32
// CHECK:         %[[MOST:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[NOTHING]])
// CHECK:           arith.maxnumf
// CHECK:         scf.for
// CHECK:           arith.subf %{{.*}}, %[[MOST]]
// CHECK:           "ex2.approx.ftz.f32
// CHECK-COUNT-3:   math.fma
// CHECK:           scf.yield
llvm.func @warps(%partials: !llvm.ptr, %count: i64, %index: i64) {
  %row, %max, %sum = kvq.tile.merge_warps %partials, %count, %index {record = #record, queries = 4 : i64}
    : (!llvm.ptr, i64, i64) -> (!kvq.tile_row<64>, f32, f32)
  kvq.tile.store_partial %row, %max, %sum, %partials, %index {queries = 4 : i64}
    : (!kvq.tile_row<64>, f32, f32, !llvm.ptr, i64) -> ()
  llvm.return
}

// Outputs of 4 x 64 floats, then the maxima, then the sums: one lane writes those.
// CHECK-LABEL: llvm.func @store_partial
// CHECK-COUNT-2: llvm.store %{{.*}} {alignment = 4 : i64} : f32
// CHECK:         scf.if
// CHECK:           %[[MAX:.*]] = llvm.getelementptr %{{.*}}[1024]
// CHECK:           llvm.store %{{.*}}, %[[MAX]]
// CHECK:           %[[SUM:.*]] = llvm.getelementptr %{{.*}}[1040]
// CHECK:           llvm.store %{{.*}}, %[[SUM]]
llvm.func @store_partial(%a: !llvm.ptr, %max: f32, %sum: f32, %partial: !llvm.ptr, %index: i64) {
  %row = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  kvq.tile.store_partial %row, %max, %sum, %partial, %index {queries = 4 : i64}
    : (!kvq.tile_row<64>, f32, f32, !llvm.ptr, i64) -> ()
  llvm.return
}

// A lane looks at every 32nd maximum, the warp at all; then the partials follow in ascending order, and those past the end
// are selected away.
// CHECK-LABEL: llvm.func @partials
// CHECK-DAG:     %[[STRIDE:.*]] = arith.constant 1152 : i64
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK:         scf.for
// CHECK:           arith.muli %{{.*}}, %[[STRIDE]]
// CHECK:           arith.maxnumf
// CHECK-COUNT-5: shfl.sync.bfly.f32
// CHECK:         scf.for
// CHECK:           "ex2.approx.ftz.f32
// CHECK:           arith.select %{{.*}}, %{{.*}}, %[[ZERO]] : f32
// CHECK-COUNT-3:   math.fma
llvm.func @partials(%partials: !llvm.ptr, %count: i64, %index: i64) {
  %row = kvq.tile.zero_row : () -> !kvq.tile_row<64>
  %r, %max, %sum = kvq.tile.merge_partials %row, %partials, %count, %index {stride = 1152 : i64, queries = 4 : i64}
    : (!kvq.tile_row<64>, !llvm.ptr, i64, i64) -> (!kvq.tile_row<64>, f32, f32)
  llvm.return
}

// A sum of 0: a row of zeros, -inf, no mass, whatever the sink. Else the sink, as a power of two, joins the denominator.
// CHECK-LABEL: llvm.func @normalize
// CHECK-SAME:    %[[MAX:[a-z0-9]+]]: f32, %[[SUM:[a-z0-9]+]]: f32, %[[SINK:[a-z0-9]+]]: f32)
// CHECK-DAG:     %[[LN2:.*]] = arith.constant 0.693147182 : f32
// CHECK-DAG:     %[[LOG2E:.*]] = arith.constant 1.44269502 : f32
// CHECK-DAG:     %[[NOTHING:.*]] = arith.constant 0xFF800000 : f32
// CHECK:         %[[EMPTY:.*]] = arith.cmpf oeq, %[[SUM]], %{{.*}} : f32
// CHECK:         %[[POWER:.*]] = arith.mulf %[[SINK]], %[[LOG2E]] : f32
// CHECK:         %[[MOST:.*]] = arith.maxnumf %[[MAX]], %[[POWER]] : f32
// CHECK:         arith.subf %[[MAX]], %[[MOST]] : f32
// CHECK:         arith.subf %[[POWER]], %[[MOST]] : f32
// CHECK:         arith.addf
// CHECK:         arith.select %[[EMPTY]]
// CHECK:         arith.mulf %{{.*}}, %[[LN2]]
// CHECK:         arith.select %[[EMPTY]], %[[NOTHING]], %{{.*}} : f32
llvm.func @normalize(%a: !llvm.ptr, %max: f32, %sum: f32, %sink: f32) -> f32 {
  %row = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %r, %lse, %mass = kvq.tile.normalize %row, %max, %sum, %sink
    : (!kvq.tile_row<64>, f32, f32, f32) -> (!kvq.tile_row<64>, f32, f32)
  kvq.tile.store_row %r, %a {element = f32} : (!kvq.tile_row<64>, !llvm.ptr) -> ()
  llvm.return %lse : f32
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// init_window: a finite maximum, and zeros: the sum, and four sums of each of four m-tiles.
// CHECK-LABEL: llvm.func @init
// CHECK-DAG:     %[[LEAST:.*]] = arith.constant -1.000000e+30 : f32
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK:         llvm.store %[[LEAST]]
// CHECK-COUNT-17: llvm.store %[[ZERO]]
// CHECK-NOT:     llvm.store
llvm.func @init() {
  %t, %o = kvq.tile.init_window {record = #record, queries = 4 : i64}
    : () -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
  llvm.return
}

// The maximum over the lanes of a query; -inf stays -inf whatever the step.
// CHECK-LABEL: llvm.func @weigh
// CHECK-DAG:     %[[NONE:.*]] = arith.constant 0xFF800000 : f32
// CHECK-DAG:     %[[ROOM:.*]] = arith.constant 1.400000e+01 : f32
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK:         %[[MASKED:.*]] = arith.cmpf oeq, %[[SCORE:.*]], %[[NONE]] : f32
// CHECK:         %[[LOG:.*]] = arith.mulf %[[SCORE]], %[[STEP:.*]] : f32
// CHECK:         arith.select %[[MASKED]], %[[NONE]], %[[LOG]]
// CHECK-COUNT-3: shfl.sync.bfly.f32
// CHECK-NOT:     shfl
// The sum always, and the outputs where the maximum of some query rose, are multiplied.
// CHECK:         %[[MOST:.*]] = arith.maxnumf
// CHECK:         %[[OLD:.*]] = llvm.load
// CHECK:         %[[NEXT:.*]] = arith.maxnumf %[[OLD]], %[[MOST]] : f32
// CHECK:         %[[FALL:.*]] = arith.subf %[[OLD]], %[[NEXT]] : f32
// CHECK:         %[[FACTOR:.*]] = llvm.inline_asm {{.*}}"ex2.approx.ftz.f32 $0, $1;", "=f,f" %[[FALL]]
// CHECK:         arith.mulf %{{.*}}, %[[FACTOR]]
// CHECK:         %[[ROSE:.*]] = arith.cmpf olt, %[[OLD]], %[[NEXT]] : f32
// CHECK:         %[[ANY:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.any.sync"(%{{.*}}, %[[ROSE]])
// CHECK:         scf.if %[[ANY]] {
// CHECK-COUNT-16:  arith.mulf %{{.*}}, %[[FACTOR]]
// CHECK-NOT:       arith.mulf
// CHECK:         }
// p, at most 2^14, or 0; its rounding, and what that left, become columns 2 t and 2 t + 1.
// CHECK:         %[[FRAME:.*]] = arith.subf %[[ROOM]], %{{.*}} : f32
// CHECK:         %[[POWER:.*]] = math.fma %[[SCORE]], %[[STEP]], %[[FRAME]] : f32
// CHECK:         %[[EXP:.*]] = llvm.inline_asm {{.*}}"ex2.approx.ftz.f32 $0, $1;", "=f,f" %[[POWER]]
// CHECK:         %[[P:.*]] = arith.select %[[MASKED]], %[[ZERO]], %[[EXP]] : f32
// CHECK:         arith.addf %{{.*}}, %[[P]] : f32
// CHECK:         llvm.inline_asm {{.*}}"cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f" %[[ZERO]], %[[P]]
// CHECK:         %[[HIGH:.*]] = arith.bitcast %{{.*}} : i32 to f32
// CHECK:         %[[LOW:.*]] = arith.subf %[[P]], %[[HIGH]] : f32
// CHECK:         %[[PAIR:.*]] = llvm.inline_asm {{.*}}"cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f" %[[LOW]], %[[HIGH]]
// CHECK:         "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r" %[[PAIR]]
// CHECK:         "movmatrix.sync
// CHECK-NOT:     "movmatrix.sync
llvm.func @weigh(%rows: !llvm.ptr, %begin: i64, %end: i64, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %begin, %end, %q {record = #record, queries = 4 : i64, element = bf16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %t, %o = kvq.tile.init_window {record = #record, queries = 4 : i64}
    : () -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
  %t1, %o1, %weights = kvq.tile.weigh_window %t, %o, %s {record = #record, queries = 4 : i64, element = bf16}
    : (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<scores>)
    -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<window_weights>)
  llvm.return
}

// f16, and an n-tile for each four queries.
// CHECK-LABEL: llvm.func @half
// CHECK-COUNT-4: "cvt.rn.f16x2.f32
// CHECK-COUNT-4: "cvt.rn.f16x2.f32
// CHECK-NOT:     "cvt.rn.f16x2.f32
llvm.func @half(%rows: !llvm.ptr, %begin: i64, %end: i64, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 8 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %begin, %end, %q {record = #record, queries = 8 : i64, element = f16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %t, %o = kvq.tile.init_window {record = #record, queries = 8 : i64}
    : () -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
  %t1, %o1, %weights = kvq.tile.weigh_window %t, %o, %s {record = #record, queries = 8 : i64, element = f16}
    : (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<scores>)
    -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<window_weights>)
  llvm.return
}

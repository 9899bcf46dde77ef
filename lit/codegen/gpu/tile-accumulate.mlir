// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#b2 = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#b4 = #kvq.tile_side<dim = 64, bits = 4, group = 64, form = "min", params = f16>
#b8 = #kvq.tile_side<dim = 64, bits = 8, group = 64, form = "min", params = f16>
#g32 = #kvq.tile_side<dim = 64, bits = 2, group = 32, form = "min", params = f16>
#record = #kvq.tile_record<k = #b2, v = #b2>
#four = #kvq.tile_record<k = #b4, v = #b4>
#eight = #kvq.tile_record<k = #b8, v = #b8>
#groups = #kvq.tile_record<k = #g32, v = #g32>

// 2 bits, D = 128: 8 m-tiles; slot 0 to 3 of the words, masked in place. The bytes of the weights become B fragments, one
// for each of two tiles.
// CHECK-LABEL: llvm.func @two
// CHECK-DAG:     %[[BYTES:.*]] = arith.constant 16465 : i32
// CHECK-DAG:     %[[SLOT0:.*]] = arith.constant 50529027 : i32
// CHECK-DAG:     %[[SLOT1:.*]] = arith.constant 202116108 : i32
// CHECK-DAG:     %[[SLOT2:.*]] = arith.constant 808464432 : i32
// CHECK-DAG:     %[[SLOT3:.*]] = arith.constant -1061109568 : i32
// CHECK:         scf.while
// CHECK:         scf.yield
// CHECK-COUNT-2: -> vector<4xi32>
// CHECK:         %[[W:.*]] = llvm.inline_asm {{.*}}"prmt.b32 $0, $1, $2, $3;", "=r,r,r,n" %{{.*}}, %{{.*}}, %[[BYTES]]
// CHECK:         "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r" %[[W]]
// CHECK:         "movmatrix.sync
// CHECK-NOT:     "movmatrix.sync
// CHECK:         "and.b32 {{.*}}, %[[SLOT0]]
// CHECK:         "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32
// CHECK:         "and.b32 {{.*}}, %[[SLOT1]]
// CHECK:         "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32
// CHECK:         "and.b32 {{.*}}, %[[SLOT2]]
// CHECK:         "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32
// CHECK:         "and.b32 {{.*}}, %[[SLOT3]]
// CHECK-COUNT-5: "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32
// CHECK-NOT:     mma.sync
llvm.func @two(%tile: !llvm.ptr, %w: !llvm.ptr, %partial: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %kp = kvq.tile.load_params %tile {record = #record, side = #kvq.side<key>, tiles = 2 : i64}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #record, queries = 4 : i64, tiles = 2 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %kp, %q {record = #record, queries = 4 : i64, tiles = 2 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %vp = kvq.tile.load_params %tile {record = #record, side = #kvq.side<value>, tiles = 2 : i64}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %t0 = kvq.tile.init_softmax {queries = 4 : i64, record = #record} : () -> !kvq.fragment<softmax>
  %o0 = kvq.tile.init_output %partial {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<output>
  %t1, %o1, %weights = kvq.tile.weigh_integer %t0, %o0, %s, %vp {record = #record, queries = 4 : i64, tiles = 2 : i64}
    : (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<scores>, !kvq.fragment<params>)
    -> (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<weights>)
  %o2 = kvq.tile.accumulate %o1, %tile, %weights {record = #record, queries = 4 : i64, tiles = 2 : i64}
    : (!kvq.fragment<output>, !llvm.ptr, !kvq.fragment<weights>) -> !kvq.fragment<output>
  llvm.return
}

// 4 bits, one tile alone: the other half of the MMA is 0, and so are its weights. The second slot is the upper half of a
// byte.
// CHECK-LABEL: llvm.func @four
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-DAG:     %[[SECOND:.*]] = arith.constant -252645136 : i32
// CHECK:         "movmatrix.sync
// CHECK-NOT:     "movmatrix.sync
// CHECK-COUNT-4: mma.sync{{.*}}u8.u8.s32{{.*}} %{{[0-9a-z_]+}}, %{{[0-9a-z_]+}}, %[[ZERO]], %[[ZERO]], %{{[0-9a-z_]+}}, %[[ZERO]],
// CHECK-NOT:     mma.sync
llvm.func @four(%tile: !llvm.ptr, %w: !llvm.ptr, %partial: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #four, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %kp = kvq.tile.load_params %tile {record = #four, side = #kvq.side<key>}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #four, queries = 4 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %kp, %q {record = #four, queries = 4 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %vp = kvq.tile.load_params %tile {record = #four, side = #kvq.side<value>}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %t0 = kvq.tile.init_softmax {queries = 4 : i64, record = #four} : () -> !kvq.fragment<softmax>
  %o0 = kvq.tile.init_output %partial {record = #four, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<output>
  %t1, %o1, %weights = kvq.tile.weigh_integer %t0, %o0, %s, %vp {record = #four, queries = 4 : i64}
    : (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<scores>, !kvq.fragment<params>)
    -> (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<weights>)
  %o2 = kvq.tile.accumulate %o1, %tile, %weights {record = #four, queries = 4 : i64}
    : (!kvq.fragment<output>, !llvm.ptr, !kvq.fragment<weights>) -> !kvq.fragment<output>
  llvm.return
}

// 8 bits: signed codes, no mask.
// CHECK-LABEL: llvm.func @eight
// CHECK:         "movmatrix.sync
// CHECK-NOT:     "and.b32
// CHECK-COUNT-4: "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32
// CHECK-NOT:     mma.sync
llvm.func @eight(%tile: !llvm.ptr, %w: !llvm.ptr, %partial: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #eight, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %kp = kvq.tile.load_params %tile {record = #eight, side = #kvq.side<key>, tiles = 2 : i64}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #eight, queries = 4 : i64, tiles = 2 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %kp, %q {record = #eight, queries = 4 : i64, tiles = 2 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %vp = kvq.tile.load_params %tile {record = #eight, side = #kvq.side<value>, tiles = 2 : i64}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %t0 = kvq.tile.init_softmax {queries = 4 : i64, record = #eight} : () -> !kvq.fragment<softmax>
  %o0 = kvq.tile.init_output %partial {record = #eight, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<output>
  %t1, %o1, %weights = kvq.tile.weigh_integer %t0, %o0, %s, %vp {record = #eight, queries = 4 : i64, tiles = 2 : i64}
    : (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<scores>, !kvq.fragment<params>)
    -> (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<weights>)
  %o2 = kvq.tile.accumulate %o1, %tile, %weights {record = #eight, queries = 4 : i64, tiles = 2 : i64}
    : (!kvq.fragment<output>, !llvm.ptr, !kvq.fragment<weights>) -> !kvq.fragment<output>
  llvm.return
}

// Two groups and five queries: weights of each group, tile and n-tile.
// CHECK-LABEL: llvm.func @groups
// CHECK-COUNT-8: "movmatrix.sync
// CHECK-NOT:     "movmatrix.sync
// CHECK-COUNT-8: "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32
// CHECK-NOT:     mma.sync
llvm.func @groups(%tile: !llvm.ptr, %w: !llvm.ptr, %partial: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #groups, queries = 5 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %kp = kvq.tile.load_params %tile {record = #groups, side = #kvq.side<key>, tiles = 2 : i64}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #groups, queries = 5 : i64, tiles = 2 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %kp, %q {record = #groups, queries = 5 : i64, tiles = 2 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %vp = kvq.tile.load_params %tile {record = #groups, side = #kvq.side<value>, tiles = 2 : i64}
    : (!llvm.ptr) -> !kvq.fragment<params>
  %t0 = kvq.tile.init_softmax {queries = 5 : i64, record = #groups} : () -> !kvq.fragment<softmax>
  %o0 = kvq.tile.init_output %partial {record = #groups, queries = 5 : i64} : (!llvm.ptr) -> !kvq.fragment<output>
  %t1, %o1, %weights = kvq.tile.weigh_integer %t0, %o0, %s, %vp {record = #groups, queries = 5 : i64, tiles = 2 : i64}
    : (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<scores>, !kvq.fragment<params>)
    -> (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<weights>)
  %o2 = kvq.tile.accumulate %o1, %tile, %weights {record = #groups, queries = 5 : i64, tiles = 2 : i64}
    : (!kvq.fragment<output>, !llvm.ptr, !kvq.fragment<weights>) -> !kvq.fragment<output>
  llvm.return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#b2 = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#b4 = #kvq.tile_side<dim = 128, bits = 4, group = 128, form = "min", params = f16>
#b8 = #kvq.tile_side<dim = 128, bits = 8, group = 128, form = "min", params = f16>
#tail = #kvq.tile_side<dim = 96, bits = 2, group = 96, form = "min", params = f16>
#g32 = #kvq.tile_side<dim = 128, bits = 2, group = 32, form = "min", params = f16>
#two = #kvq.tile_record<k = #b2, v = #b2>
#four = #kvq.tile_record<k = #b4, v = #b4>
#eight = #kvq.tile_record<k = #b8, v = #b8>
#d96 = #kvq.tile_record<k = #tail, v = #tail>
#groups = #kvq.tile_record<k = #g32, v = #g32>

// 2 bits, D = 128: one vector of 16 bytes, four k-steps; the codes of slot 0, 1, 2, 3 move left to the top of their bytes.
// CHECK-LABEL: llvm.func @two
// CHECK-DAG:     %[[TOP:.*]] = arith.constant -1061109568 : i32
// CHECK-DAG:     %[[SIX:.*]] = arith.constant 6 : i32
// CHECK-DAG:     %[[FOUR:.*]] = arith.constant 4 : i32
// CHECK-DAG:     %[[TWO:.*]] = arith.constant 2 : i32
// CHECK:         llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xi32>
// CHECK:         %[[A:.*]] = arith.shli %{{.*}}, %[[SIX]]
// CHECK-NEXT:    "and.b32 $0, $1, $2;", "=r,r,n" %[[A]], %[[TOP]]
// CHECK:         "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32
// CHECK:         %[[B:.*]] = arith.shli %{{.*}}, %[[FOUR]]
// CHECK-NEXT:    "and.b32 $0, $1, $2;", "=r,r,n" %[[B]], %[[TOP]]
// CHECK:         "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32
// CHECK:         %[[C:.*]] = arith.shli %{{.*}}, %[[TWO]]
// CHECK-NEXT:    "and.b32 $0, $1, $2;", "=r,r,n" %[[C]], %[[TOP]]
// CHECK:         "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32
// CHECK-NOT:     arith.shli
// CHECK-COUNT-4: "and.b32 $0, $1, $2;", "=r,r,n" %{{.*}}, %[[TOP]]
// CHECK:         "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32
// CHECK-NOT:     mma.sync
llvm.func @two(%tile: !llvm.ptr, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #two, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %d = kvq.tile.dot %tile, %q {record = #two, queries = 4 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  llvm.return
}

// 4 bits: two vectors; the codes of both halves of a byte at its bottom.
// CHECK-LABEL: llvm.func @four
// CHECK-DAG:     %[[LOW:.*]] = arith.constant 252645135 : i32
// CHECK-DAG:     %[[FOUR:.*]] = arith.constant 4 : i32
// CHECK-COUNT-2: -> vector<4xi32>
// CHECK-COUNT-4: "and.b32 $0, $1, $2;", "=r,r,n" %{{.*}}, %[[LOW]]
// CHECK:         "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32
// CHECK:         %[[A:.*]] = arith.shrui %{{.*}}, %[[FOUR]]
// CHECK-NEXT:    "and.b32 $0, $1, $2;", "=r,r,n" %[[A]], %[[LOW]]
// CHECK-COUNT-3: "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32
// CHECK-NOT:     mma.sync
llvm.func @four(%tile: !llvm.ptr, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #four, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %d = kvq.tile.dot %tile, %q {record = #four, queries = 4 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  llvm.return
}

// 8 bits: a vector is the fragment of a k-step as it stands, and signed.
// CHECK-LABEL: llvm.func @eight
// CHECK-COUNT-4: -> vector<4xi32>
// CHECK-NOT:     and.b32
// CHECK-COUNT-4: "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32
// CHECK-NOT:     mma.sync
llvm.func @eight(%tile: !llvm.ptr, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #eight, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %d = kvq.tile.dot %tile, %q {record = #eight, queries = 4 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  llvm.return
}

// D = 96: vectors of 8 and 4 bytes. The third k-step takes its registers from halves of a word, by two selectors.
// CHECK-LABEL: llvm.func @tail
// CHECK-DAG:     %[[FIRST:.*]] = arith.constant 21520 : i32
// CHECK-DAG:     %[[SECOND:.*]] = arith.constant 30258 : i32
// CHECK-DAG:     llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr -> vector<2xi32>
// CHECK-COUNT-2: "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32
// CHECK-NOT:     "prmt.b32 {{.*}}, %[[SECOND]]
// CHECK:         "prmt.b32 $0, $1, $2, $3;", "=r,r,r,n" %{{.*}}, %{{.*}}, %[[FIRST]]
// CHECK:         "prmt.b32 $0, $1, $2, $3;", "=r,r,r,n" %{{.*}}, %{{.*}}, %[[SECOND]]
// CHECK:         "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32
// CHECK-NOT:     mma.sync
llvm.func @tail(%tile: !llvm.ptr, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #d96, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %d = kvq.tile.dot %tile, %q {record = #d96, queries = 4 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  llvm.return
}

// Groups of 32: each k-step is a sum of its own, and two of them are stored for the two tokens of a lane.
// CHECK-LABEL: llvm.func @groups
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-COUNT-4: mma.sync{{.*}}%[[ZERO]], %[[ZERO]], %[[ZERO]], %[[ZERO]] :
// CHECK-NOT:     mma.sync
llvm.func @groups(%tile: !llvm.ptr, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #groups, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %d = kvq.tile.dot %tile, %q {record = #groups, queries = 4 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  llvm.return
}

// Five queries are two n-tiles: both use the same codes. Two tiles of them.
// CHECK-LABEL: llvm.func @queries
// CHECK-COUNT-4: "and.b32
// CHECK-NOT:     "and.b32
// CHECK-COUNT-2: mma.sync
// CHECK-COUNT-14: mma.sync
// CHECK-NOT:     mma.sync
llvm.func @queries(%tile: !llvm.ptr, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #two, queries = 5 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %d = kvq.tile.dot %tile, %q {record = #two, queries = 5 : i64, tiles = 2 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  llvm.return
}

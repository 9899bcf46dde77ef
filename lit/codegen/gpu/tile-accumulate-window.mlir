// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// Rows g and g + 8, 16 t bytes on: a vector has the words of two m-tiles. Transposed, word a of row r is register a + 2 r.
// CHECK-LABEL: llvm.func @accumulate
// CHECK-SAME:    (%[[ROWS:[a-z0-9]+]]: !llvm.ptr, %[[BEGIN:[a-z0-9]+]]: i64, %[[END:[a-z0-9]+]]: i64,
// CHECK-DAG:     %[[SIXTEEN:.*]] = arith.constant 16 : i64
// CHECK-DAG:     %[[ROW:.*]] = arith.constant 128 : i64
// Of the weights.
// CHECK:         "movmatrix.sync
// CHECK:         "movmatrix.sync
// CHECK:         arith.muli %{{.*}}, %[[SIXTEEN]] : i64
// CHECK:         arith.muli %{{.*}}, %[[ROW]] : i64
// CHECK:         %[[A0:.*]] = llvm.getelementptr %[[ROWS]]
// CHECK:         %[[A1:.*]] = llvm.getelementptr %[[ROWS]]
// Only where some row counts.
// CHECK-DAG:     %[[PAST:.*]] = arith.cmpi sgt, %[[AFTER:.*]], %[[NOTHING:.*]] : i32
// CHECK-DAG:     %[[INSIDE:.*]] = arith.cmpi slt, %[[FIRST:.*]], %{{.*}} : i32
// CHECK-DAG:     arith.andi %[[PAST]], %[[INSIDE]]
// CHECK-DAG:     arith.cmpi slt, %[[FIRST]], %[[AFTER]] : i32
// CHECK:         scf.if
// CHECK:         %[[V0:.*]] = llvm.load %[[A0]] {alignment = 16 : i64} : !llvm.ptr -> vector<4xi32>
// CHECK:         %[[W00:.*]] = vector.extract %[[V0]][0]
// CHECK:         %[[W01:.*]] = vector.extract %[[V0]][1]
// CHECK:         %[[W02:.*]] = vector.extract %[[V0]][2]
// CHECK:         %[[W03:.*]] = vector.extract %[[V0]][3]
// CHECK:         %[[V1:.*]] = llvm.load %[[A1]] {alignment = 16 : i64} : !llvm.ptr -> vector<4xi32>
// CHECK:         %[[W10:.*]] = vector.extract %[[V1]][0]
// CHECK:         %[[W11:.*]] = vector.extract %[[V1]][1]
// CHECK:         %[[R0:.*]] = llvm.inline_asm {{.*}}"movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r" %[[W00]]
// CHECK:         %[[R1:.*]] = llvm.inline_asm {{.*}}"=r,r" %[[W01]]
// CHECK:         %[[R2:.*]] = llvm.inline_asm {{.*}}"=r,r" %[[W10]]
// CHECK:         %[[R3:.*]] = llvm.inline_asm {{.*}}"=r,r" %[[W11]]
// CHECK:         "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{.*}} %[[R0]], %[[R1]], %[[R2]], %[[R3]],
// CHECK:         "=r,r" %[[W02]]
// CHECK:         "=r,r" %[[W03]]
// CHECK:         "mma.sync
// CHECK:         llvm.getelementptr %[[A0]][64]
// CHECK-COUNT-2: "mma.sync
// CHECK-NOT:     "mma.sync
llvm.func @accumulate(%rows: !llvm.ptr, %begin: i64, %end: i64, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %begin, %end, %q {record = #record, queries = 4 : i64, element = bf16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %t, %o = kvq.tile.init_window {record = #record, queries = 4 : i64}
    : () -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
  %t1, %o1, %weights = kvq.tile.weigh_window %t, %o, %s {record = #record, queries = 4 : i64, element = bf16}
    : (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<scores>)
    -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<window_weights>)
  %o2 = kvq.tile.accumulate_window %o1, %rows, %begin, %end, %weights {record = #record, queries = 4 : i64, element = bf16}
    : (!kvq.fragment<window_output>, !llvm.ptr, i64, i64, !kvq.fragment<window_weights>) -> !kvq.fragment<window_output>
  llvm.return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#b2 = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#b4 = #kvq.tile_side<dim = 64, bits = 4, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #b2, v = #b2>
#four = #kvq.tile_record<k = #b4, v = #b4>

// Rows g and g + 8 of lane 4 g + t, brought between %begin and the row before %end, and 8 t bytes on.
// CHECK-LABEL: llvm.func @bf16
// CHECK-SAME:    (%[[ROWS:[a-z0-9]+]]: !llvm.ptr, %[[BEGIN:[a-z0-9]+]]: i64, %[[END:[a-z0-9]+]]: i64,
// CHECK-DAG:     %[[UNIT:.*]] = arith.constant 6.400000e+01 : f32
// CHECK-DAG:     %[[HIGH:.*]] = arith.constant 1.638400e+04 : f32
// CHECK-DAG:     %[[UPPER:.*]] = arith.constant 17218 : i32
// CHECK-DAG:     %[[LOWER:.*]] = arith.constant 16704 : i32
// CHECK-DAG:     %[[ROW:.*]] = arith.constant 128 : i64
// CHECK-DAG:     %[[EIGHT:.*]] = arith.constant 8 : i64
// CHECK-DAG:     %[[FIFTEEN:.*]] = arith.constant 15 : i32
// CHECK:         %[[FIRST:.*]] = arith.trunci %[[BEGIN]] : i64 to i32
// CHECK:         %[[AFTER:.*]] = arith.trunci %[[END]] : i64 to i32
// CHECK:         %[[LAST:.*]] = arith.subi %[[AFTER]], %{{.*}} : i32
// CHECK:         %[[NOTLAST:.*]] = arith.cmpi slt, %[[G:.*]], %[[LAST]]
// CHECK:         %[[ATMOST:.*]] = arith.select %[[NOTLAST]], %[[G]], %[[LAST]]
// CHECK:         %[[BEFORE:.*]] = arith.cmpi slt, %[[ATMOST]], %[[FIRST]]
// CHECK:         %[[NEAREST:.*]] = arith.select %[[BEFORE]], %[[FIRST]], %[[ATMOST]]
// CHECK:         %[[READ:.*]] = arith.andi %[[NEAREST]], %[[FIFTEEN]] : i32
// CHECK:         arith.muli %{{.*}}, %[[EIGHT]] : i64
// CHECK:         %[[WIDE:.*]] = arith.extsi %[[READ]]
// CHECK:         arith.muli %[[WIDE]], %[[ROW]] : i64
// CHECK:         %[[A0:.*]] = llvm.getelementptr %[[ROWS]]
// CHECK:         %[[A1:.*]] = llvm.getelementptr %[[ROWS]]
// Four k-steps: the two words of each row are registers r and r + 2.
// CHECK:         %[[V0:.*]] = llvm.load %[[A0]] {alignment = 8 : i64} : !llvm.ptr -> vector<2xi32>
// CHECK:         %[[W00:.*]] = vector.extract %[[V0]][0]
// CHECK:         %[[W01:.*]] = vector.extract %[[V0]][1]
// CHECK:         %[[V1:.*]] = llvm.load %[[A1]] {alignment = 8 : i64} : !llvm.ptr -> vector<2xi32>
// CHECK:         %[[W10:.*]] = vector.extract %[[V1]][0]
// CHECK:         %[[W11:.*]] = vector.extract %[[V1]][1]
// Bytes of the query: seven bits are the mantissa of 128..., the sign takes 128 or 256 off.
// CHECK:         %[[BYTES:.*]] = llvm.inline_asm {{.*}}"prmt.b32 $0, $1, $2, $3;", "=r,r,r,n" %[[QUERY:.*]], %{{.*}}, %[[UPPER]]
// CHECK:         arith.andi %[[BYTES]]
// CHECK:         arith.ori
// CHECK:         arith.andi %[[BYTES]]
// CHECK:         arith.ori
// CHECK:         %[[B1:.*]] = llvm.inline_asm {{.*}}"fma.rn.bf16x2 $0, $1, $2, $3;"
// CHECK:         "prmt.b32 $0, $1, $2, $3;", "=r,r,r,n" %[[QUERY]], %{{.*}}, %[[LOWER]]
// CHECK:         %[[B0:.*]] = llvm.inline_asm {{.*}}"fma.rn.bf16x2 $0, $1, $2, $3;"
// CHECK:         "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{.*}} %[[W00]], %[[W10]], %[[W01]], %[[W11]], %[[B0]], %[[B1]],
// CHECK:         llvm.getelementptr %[[A0]][32]
// CHECK-COUNT-3: "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-NOT:     mma.sync
// The parts of a score, in the unit of a dot of 2-bit codes, which are taken times 64. Then the step of the query.
// CHECK:         %[[LOW0:.*]] = arith.mulf %{{.*}}, %[[UNIT]] : f32
// CHECK:         math.fma %{{.*}}, %[[HIGH]], %[[LOW0]] : f32
// CHECK:         %[[LOW1:.*]] = arith.mulf %{{.*}}, %[[UNIT]] : f32
// CHECK:         math.fma %{{.*}}, %[[HIGH]], %[[LOW1]] : f32
// CHECK-NOT:     math.fma
llvm.func @bf16(%rows: !llvm.ptr, %begin: i64, %end: i64, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %begin, %end, %q {record = #record, queries = 4 : i64, element = bf16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  llvm.return
}

// 4-bit codes are taken as they are. A byte of f16 has 128 added, in numbers from 1024 on. Two n-tiles read the same rows.
// CHECK-LABEL: llvm.func @f16
// CHECK-DAG:     %[[HIGH:.*]] = arith.constant 2.560000e+02 : f32
// CHECK-DAG:     %[[FLIP:.*]] = arith.constant -2139062144 : i32
// CHECK-DAG:     %[[FILLER:.*]] = arith.constant 1684300900 : i32
// CHECK-DAG:     %[[LESS:.*]] = arith.constant -461314944 : i32
// CHECK-COUNT-2: -> vector<2xi32>
// CHECK:         %[[FLIPPED:.*]] = arith.xori %{{.*}}, %[[FLIP]]
// CHECK:         %[[NUMBERS:.*]] = llvm.inline_asm {{.*}}"prmt.b32 {{.*}} %[[FLIPPED]], %[[FILLER]],
// CHECK:         "add.rn.f16x2 $0, $1, $2;", "=r,r,r" %[[NUMBERS]], %[[LESS]]
// CHECK-COUNT-2: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK-COUNT-2: -> vector<2xi32>
// CHECK-COUNT-6: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK-NOT:     mma.sync
// CHECK-COUNT-4: math.fma %{{.*}}, %[[HIGH]], %{{.*}} : f32
llvm.func @f16(%rows: !llvm.ptr, %begin: i64, %end: i64, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #four, queries = 8 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %begin, %end, %q {record = #four, queries = 8 : i64, element = f16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  llvm.return
}

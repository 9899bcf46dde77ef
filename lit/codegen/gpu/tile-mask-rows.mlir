// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// Rows g and g + 8 of two n-tiles count from %begin to before %end.
// CHECK-LABEL: llvm.func @mask
// CHECK-SAME:    %[[BEGIN:[a-z0-9]+]]: i64, %[[END:[a-z0-9]+]]: i64,
// CHECK-DAG:     %[[NONE:.*]] = arith.constant 0xFF800000 : f32
// CHECK-COUNT-8: mma.sync
// CHECK:         %[[FIRST:.*]] = arith.trunci %[[BEGIN]] : i64 to i32
// CHECK:         %[[AFTER:.*]] = arith.trunci %[[END]] : i64 to i32
// CHECK:         %[[G:.*]] = arith.shrui
// CHECK-DAG:     %[[BEFORE:.*]] = arith.subi %[[FIRST]],
// CHECK-DAG:     %[[LATE:.*]] = arith.cmpi slt, %[[BEFORE]], %[[G]]
// CHECK-DAG:     %[[EARLY:.*]] = arith.cmpi slt, %[[G]], %[[AFTER]]
// CHECK:         %[[COUNTS:.*]] = arith.andi %[[EARLY]], %[[LATE]]
// CHECK-COUNT-2: arith.select %[[COUNTS]], %{{.*}}, %[[NONE]] : f32
// CHECK:         %[[SECOND:.*]] = arith.addi
// CHECK:         arith.cmpi slt, %[[SECOND]], %[[AFTER]]
// CHECK-COUNT-2: arith.select %{{.*}}, %{{.*}}, %[[NONE]] : f32
// CHECK-NOT:     arith.select
llvm.func @mask(%rows: !llvm.ptr, %begin: i64, %end: i64, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 8 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %begin, %end, %q {record = #record, queries = 8 : i64, element = bf16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %m = kvq.tile.mask_rows %s, %begin, %end {queries = 8 : i64}
    : (!kvq.fragment<scores>, i64, i64) -> !kvq.fragment<scores>
  llvm.return
}

// Four rows of two tiles.
// CHECK-LABEL: llvm.func @tiles
// CHECK-DAG:     %[[LAST:.*]] = arith.constant 24 : i32
// CHECK-DAG:     %[[NONE:.*]] = arith.constant 0xFF800000 : f32
// CHECK-COUNT-3: arith.select %{{.*}}, %{{.*}}, %[[NONE]] : f32
// CHECK:         arith.addi %{{.*}}, %[[LAST]] : i32
// CHECK:         arith.select %{{.*}}, %{{.*}}, %[[NONE]] : f32
// CHECK:         %[[PLACE:.*]] = llvm.getelementptr %{{.*}}[12]
// CHECK:         llvm.store %{{.*}}, %[[PLACE]]
// CHECK-NOT:     arith.select
llvm.func @tiles(%rows: !llvm.ptr, %begin: i64, %end: i64) {
  %s = builtin.unrealized_conversion_cast %rows : !llvm.ptr to !kvq.fragment<scores>
  %m = kvq.tile.mask_rows %s, %begin, %end {queries = 4 : i64, tiles = 2 : i64}
    : (!kvq.fragment<scores>, i64, i64) -> !kvq.fragment<scores>
  llvm.return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// As powers of two: cap' - 2 cap' / (1 + exp2(2 log2(e) logit / cap')), cap' = 30 log2(e).
// CHECK-LABEL: llvm.func @cap
// CHECK-DAG:     %[[CAP:.*]] = arith.constant 43.2808495 : f32
// CHECK-DAG:     %[[TWICE:.*]] = arith.constant 8.656170e+01 : f32
// CHECK:         mma.sync
// CHECK:         llvm.getelementptr %{{.*}}[40]
// CHECK:         %[[SHIFT:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK:         %[[LOGIT:.*]] = math.fma %{{.*}}, %{{.*}}, %[[SHIFT]] : f32
// CHECK-NEXT:    arith.mulf %[[LOGIT]]
// CHECK:         "ex2.approx.ftz.f32
// CHECK:         %[[REST:.*]] = arith.divf %[[TWICE]]
// CHECK:         arith.subf %[[CAP]], %[[REST]]
llvm.func @cap(%w: !llvm.ptr, %rows: !llvm.ptr, %begin: i64, %end: i64) {
  %q = kvq.tile.load_query %w {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %begin, %end, %q {record = #record, queries = 4 : i64, element = bf16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %c = kvq.tile.softcap %s, %q {record = #record, queries = 4 : i64, cap = 30.0 : f64}
    : (!kvq.fragment<scores>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  llvm.return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// The shift of the query first, then cap * tanh(logit / cap): the exponential far from 0, the series near it.
// CHECK-LABEL: func.func @cap
// CHECK-DAG:     %[[CAP:.*]] = arith.constant dense<3.000000e+01> : vector<16xf32>
// CHECK-DAG:     %[[INVERSE:.*]] = arith.constant dense<0.0333333351> : vector<16xf32>
// CHECK-DAG:     %[[NEAR:.*]] = arith.constant dense<2.500000e-01> : vector<16xf32>
// CHECK-DAG:     %[[CUBE:.*]] = arith.constant dense<-0.333333343> : vector<16xf32>
// CHECK:         %[[LOGIT:.*]] = arith.addf %{{.*}}, %{{.*}} : vector<16xf32>
// CHECK-NEXT:    %[[X:.*]] = arith.mulf %[[LOGIT]], %[[INVERSE]]
// CHECK:         arith.divf
// CHECK:         math.fma %{{.*}}, %{{.*}}, %[[CUBE]]
// CHECK:         %[[IS_NEAR:.*]] = arith.cmpf olt, %{{.*}}, %[[NEAR]]
// CHECK:         %[[TANH:.*]] = arith.select %[[IS_NEAR]]
// CHECK:         arith.mulf %[[TANH]], %[[CAP]]
func.func @cap(%w: !llvm.ptr, %rows: !llvm.ptr, %begin: i64, %end: i64) {
  %q = kvq.tile.load_query %w {record = #record, queries = 2 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %s = kvq.tile.dot_rows %rows, %begin, %end, %q {record = #record, queries = 2 : i64, element = bf16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %c = kvq.tile.softcap %s, %q {record = #record, queries = 2 : i64, cap = 30.0 : f64}
    : (!kvq.fragment<scores>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  return
}

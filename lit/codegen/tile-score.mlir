// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// offset * sum, then scale * dot; what a row does not attend is tile.mask_scores' business.
// CHECK-LABEL: func.func @score
// CHECK-NOT:     0xFF800000
// CHECK:         math.fma
// CHECK:         %[[SCORE:.*]] = math.fma
// CHECK:         llvm.store %{{.*}} : vector<16xf32>
// CHECK-NOT:     arith.select
func.func @score(%tile: !llvm.ptr, %w: !llvm.ptr, %valid: i64) {
  %q = kvq.tile.load_query %w {record = #record, queries = 2 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %p = kvq.tile.load_params %tile, %valid {record = #record, side = #kvq.side<key>}
    : (!llvm.ptr, i64) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #record, queries = 2 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %p, %q {record = #record, queries = 2 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  return
}

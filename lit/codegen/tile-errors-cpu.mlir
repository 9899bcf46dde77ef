// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics --kvq-lower-tiles-cpu

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
func.func @tiles(%tile: !llvm.ptr, %q: !kvq.fragment<query>) {
  // expected-error@+1 {{target cpu expects tiles = 1, got 2}}
  %d = kvq.tile.dot %tile, %q {record = #record, queries = 2 : i64, tiles = 2 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  return
}

// -----

// Merges of warps are the GPU's.
#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
func.func @warps(%p: !llvm.ptr, %n: i64, %i: i64) {
  // expected-error@+1 {{failed to legalize operation 'kvq.tile.merge_warps'}}
  %row, %max, %sum = kvq.tile.merge_warps %p, %n, %i {record = #record, queries = 2 : i64}
    : (!llvm.ptr, i64, i64) -> (!kvq.tile_row<64>, f32, f32)
  return
}

// -----

// So is a window with a softmax of its own.
#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
func.func @window() {
  // expected-error@+1 {{failed to legalize operation 'kvq.tile.init_window'}}
  %t, %o = kvq.tile.init_window {record = #record, queries = 2 : i64}
    : () -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
  return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tile-errors-gpu.mlir has not.
// RUN: kvq-opt %s --split-input-file --verify-diagnostics --kvq-lower-tiles-gpu

#side = #kvq.tile_side<dim = 80, bits = 2, group = 80, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
llvm.func @dim(%w: !llvm.ptr) {
  // expected-error@+1 {{the gpu targets expect head dims that are multiples of 32 and 2, 4 or 8 bits, got dim = 80 and bits = 2}}
  %q = kvq.tile.load_query %w {record = #record, queries = 1 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  llvm.return
}

// -----

// The CPU's merge of splits has no pattern here.
llvm.func @combine(%p: !llvm.ptr, %n: i64, %i: i64, %sink: f32) {
  // expected-error@+1 {{failed to legalize operation 'kvq.tile.combine'}}
  %r, %lse, %mass = kvq.tile.combine %p, %n, %i, %sink {stride = 528 : i64, queries = 2 : i64}
    : (!llvm.ptr, i64, i64, f32) -> (!kvq.tile_row<64>, f32, f32)
  llvm.return
}

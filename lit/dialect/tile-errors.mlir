// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
func.func @queries(%w: !llvm.ptr) {
  // expected-error @below {{'kvq.tile.load_query' op expects queries of at least 1, got 0}}
  %q = kvq.tile.load_query %w {record = #record, queries = 0 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  return
}

// -----

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
func.func @tiles(%tile: !llvm.ptr) {
  // expected-error @below {{'kvq.tile.load_params' op expects tiles of at least 1, got 0}}
  %p = kvq.tile.load_params %tile {record = #record, side = #kvq.side<key>, tiles = 0 : i64}
    : (!llvm.ptr) -> !kvq.fragment<params>
  return
}

// -----

func.func @element(%a: !llvm.ptr) {
  // expected-error @below {{'kvq.tile.load_row' op expects element f16, bf16 or f32, got 'i16'}}
  %r = kvq.tile.load_row %a {element = i16} : (!llvm.ptr) -> !kvq.tile_row<64>
  return
}

// -----

func.func @scope(%r: !kvq.tile_row<64>) {
  // expected-error @below {{expects a scope that divides the row's 64 channels, got 48}}
  %c = kvq.tile.clip %r {kind = #kvq.tile_clip<constant>, scope = 48 : i64, index = 0 : i64, value = 1.0 : f64}
    : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  return
}

// -----

func.func @index(%r: !kvq.tile_row<64>) {
  // expected-error @below {{expects an index below its scope of 32, got 32}}
  %c = kvq.tile.clip %r {kind = #kvq.tile_clip<order_statistic>, scope = 32 : i64, index = 32 : i64, value = 1.0 : f64}
    : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  return
}

// -----

#k = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#v = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #k, v = #v>
func.func @query(%r: !kvq.tile_row<64>, %shift: f32, %w: !llvm.ptr, %i: i64) {
  // expected-error @below {{expects a row of 128 channels as the key of its record, got 64}}
  kvq.tile.store_query %r, %shift, %w, %i {record = #record, queries = 2 : i64}
    : (!kvq.tile_row<64>, f32, !llvm.ptr, i64) -> ()
  return
}

// -----

#k = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#v = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #k, v = #v>
func.func @warps(%p: !llvm.ptr, %n: i64, %i: i64) {
  // expected-error @below {{expects a row of 64 channels as the value of its record, got 128}}
  %row, %max, %sum = kvq.tile.merge_warps %p, %n, %i {record = #record, queries = 2 : i64}
    : (!llvm.ptr, i64, i64) -> (!kvq.tile_row<128>, f32, f32)
  return
}

// -----

func.func @overlap(%row: !kvq.tile_row<64>, %p: !llvm.ptr, %n: i64, %i: i64) {
  // expected-error @below {{expects a stride that is a multiple of 4 and at least 528 bytes, got 524}}
  %r, %max, %sum = kvq.tile.merge_partials %row, %p, %n, %i {stride = 524 : i64, queries = 2 : i64}
    : (!kvq.tile_row<64>, !llvm.ptr, i64, i64) -> (!kvq.tile_row<64>, f32, f32)
  return
}

// -----

func.func @stride(%p: !llvm.ptr, %n: i64, %i: i64, %sink: f32) {
  // expected-error @below {{expects a stride that is a multiple of 4 and at least 528 bytes, got 530}}
  %r, %lse, %mass = kvq.tile.combine %p, %n, %i, %sink {stride = 530 : i64, queries = 2 : i64}
    : (!llvm.ptr, i64, i64, f32) -> (!kvq.tile_row<64>, f32, f32)
  return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics --kvq-lower-tiles-cpu

func.func @order(%r: !kvq.tile_row<32>) {
  // expected-error@+1 {{expects an order that is a power of two and divides the row's 32 channels, got 24}}
  %h = kvq.tile.hadamard %r {order = 24 : i64} : (!kvq.tile_row<32>) -> !kvq.tile_row<32>
  return
}

// -----

func.func @not_a_power(%r: !kvq.tile_row<96>) {
  // expected-error@+1 {{expects an order that is a power of two and divides the row's 96 channels, got 24}}
  %h = kvq.tile.hadamard %r {order = 24 : i64} : (!kvq.tile_row<96>) -> !kvq.tile_row<96>
  return
}

// -----

func.func @too_large(%r: !kvq.tile_row<32>) {
  // expected-error@+1 {{expects an order that is a power of two and divides the row's 32 channels, got 64}}
  %h = kvq.tile.hadamard %r {order = 64 : i64} : (!kvq.tile_row<32>) -> !kvq.tile_row<32>
  return
}

// -----

func.func @side(%r: !kvq.tile_row<32>) {
  // expected-error@+1 {{expects a row of 64 channels as its side says, got 32}}
  %c, %p = kvq.tile.quantize %r {side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>}
    : (!kvq.tile_row<32>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  return
}

// -----

func.func @element(%a: !llvm.ptr) {
  // expected-error@+1 {{expects element f16, bf16 or f32, got 'f64'}}
  %r = kvq.tile.load_row %a {element = f64} : (!llvm.ptr) -> !kvq.tile_row<32>
  return
}

// -----

func.func @queries() {
  // expected-error@+1 {{expects queries of at least 1, got 0}}
  %s = kvq.tile.init_softmax {queries = 0 : i64} : () -> !kvq.fragment<softmax>
  return
}

// -----

func.func @scope(%r: !kvq.tile_row<64>) {
  // expected-error@+1 {{expects a scope that divides the row's 64 channels, got 48}}
  %c = kvq.tile.clip %r {kind = #kvq.tile_clip<constant>, scope = 48 : i64, index = 0 : i64, value = 1.0 : f64}
    : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  return
}

// -----

func.func @index(%r: !kvq.tile_row<64>) {
  // expected-error@+1 {{expects an index below its scope of 32, got 32}}
  %c = kvq.tile.clip %r {kind = #kvq.tile_clip<order_statistic>, scope = 32 : i64, index = 32 : i64, value = 1.0 : f64}
    : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  return
}

// -----

#k = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#v = #kvq.tile_side<dim = 32, bits = 2, group = 32, form = "min", params = f16>
#record = #kvq.tile_record<k = #k, v = #v>
func.func @query(%r: !kvq.tile_row<32>, %w: !llvm.ptr, %shift: f32, %i: i64) {
  // expected-error@+1 {{expects a row of 64 channels as the key of its record, got 32}}
  kvq.tile.store_query %r, %shift, %w, %i {record = #record, queries = 2 : i64}
    : (!kvq.tile_row<32>, f32, !llvm.ptr, i64) -> ()
  return
}

// -----

#k = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#v = #kvq.tile_side<dim = 32, bits = 2, group = 32, form = "min", params = f16>
#record = #kvq.tile_record<k = #k, v = #v>
func.func @warps(%partials: !llvm.ptr, %n: i64, %i: i64) {
  // expected-error@+1 {{expects a row of 32 channels as the value of its record, got 64}}
  %r, %m, %s = kvq.tile.merge_warps %partials, %n, %i {record = #record, queries = 2 : i64}
    : (!llvm.ptr, i64, i64) -> (!kvq.tile_row<64>, f32, f32)
  return
}

// -----

func.func @partials(%r: !kvq.tile_row<64>, %partials: !llvm.ptr, %n: i64, %i: i64) {
  // expected-error@+1 {{expects a stride that is a multiple of 4 and at least 1056 bytes, got 1052}}
  %o, %m, %s = kvq.tile.merge_partials %r, %partials, %n, %i {stride = 1052 : i64, queries = 4 : i64}
    : (!kvq.tile_row<64>, !llvm.ptr, i64, i64) -> (!kvq.tile_row<64>, f32, f32)
  return
}

// -----

func.func @splits(%partials: !llvm.ptr, %n: i64, %i: i64, %sink: f32) {
  // expected-error@+1 {{expects a stride that is a multiple of 4 and at least 1056 bytes, got 1058}}
  %r, %lse, %mass = kvq.tile.combine %partials, %n, %i, %sink {stride = 1058 : i64, queries = 4 : i64}
    : (!llvm.ptr, i64, i64, f32) -> (!kvq.tile_row<64>, f32, f32)
  return
}

// -----

// expected-error@+1 {{expects form "min", "zero" or "sym", got "max"}}
#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "max", params = f16>

// -----

// expected-error@+1 {{expects a group that divides dim = 64, got 48}}
#side = #kvq.tile_side<dim = 64, bits = 2, group = 48, form = "min", params = f16>

// -----

// expected-error@+1 {{expects params of type f16, bf16 or f32, got 'i16'}}
#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = i16>

// -----

// expected-error@+1 {{expects dim in 1..576, got 640}}
#side = #kvq.tile_side<dim = 640, bits = 2, group = 64, form = "min", params = f16>

// -----

// expected-error@+1 {{expects bits in 1..8, got 9}}
#side = #kvq.tile_side<dim = 64, bits = 9, group = 64, form = "min", params = f16>

// -----

#side = #kvq.tile_side<dim = 64, bits = 5, group = 64, form = "min", params = f16>
// expected-error@+1 {{key: expected 1, 2, 3, 4 or 8 bits, got 5}}
#record = #kvq.tile_record<k = #side, v = #side>

// -----

#side = #kvq.tile_side<dim = 64, bits = 3, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
func.func @bits(%tile: !llvm.ptr, %n: i64) {
  // expected-error@+1 {{target cpu expects head dims that are multiples of 32 and 2, 4 or 8 bits, got dim = 64 and bits = 3}}
  %p = kvq.tile.load_params %tile, %n {record = #record, side = #kvq.side<key>}
    : (!llvm.ptr, i64) -> !kvq.fragment<params>
  return
}

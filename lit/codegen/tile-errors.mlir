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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What no pattern of a warp can hold is refused before any op is lowered.
// RUN: kvq-opt %s --split-input-file --verify-diagnostics --kvq-lower-tiles-gpu

llvm.func @rows(%a: !llvm.ptr) {
  // expected-error@+1 {{the gpu targets expect rows of a multiple of 32 channels, got 48}}
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<48>
  llvm.return
}

// -----

llvm.func @scopes(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  // expected-error@+1 {{the gpu targets expect scopes of a multiple of 32 channels, got 16}}
  %c = kvq.tile.clip %r {kind = #kvq.tile_clip<constant>, scope = 16 : i64, index = 0 : i64, value = 1.0 : f64}
    : (!kvq.tile_row<64>) -> !kvq.tile_row<64>
  llvm.return
}

// -----

llvm.func @groups(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  // expected-error@+1 {{the gpu targets expect groups of a multiple of 32 channels, got 16}}
  %c, %p = kvq.tile.quantize %r {side = #kvq.tile_side<dim = 64, bits = 2, group = 16, form = "min", params = f16>}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  llvm.return
}

// -----

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
llvm.func @partial() {
  // expected-error@+1 {{the gpu targets expect a partial to keep the fp32 sums in, found none}}
  %o = kvq.tile.init_output {record = #record, queries = 2 : i64} : () -> !kvq.fragment<output>
  llvm.return
}

// -----

llvm.func @record() {
  // expected-error@+1 {{the gpu targets expect a record that says the value groups, found none}}
  %s = kvq.tile.init_softmax {queries = 2 : i64} : () -> !kvq.fragment<softmax>
  llvm.return
}

// -----

#side = #kvq.tile_side<dim = 64, bits = 3, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
llvm.func @bits(%tile: !llvm.ptr, %n: i64) {
  // expected-error@+1 {{the gpu targets expect head dims that are multiples of 32 and 2, 4 or 8 bits, got dim = 64 and bits = 3}}
  %p = kvq.tile.load_params %tile, %n {record = #record, side = #kvq.side<key>}
    : (!llvm.ptr, i64) -> !kvq.fragment<params>
  llvm.return
}

// -----

// Integer accumulators take no rows.
#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
llvm.func @values(%v: !llvm.ptr, %begin: i64, %end: i64) {
  %o = builtin.unrealized_conversion_cast %v : !llvm.ptr to !kvq.fragment<output>
  %p = builtin.unrealized_conversion_cast %v : !llvm.ptr to !kvq.fragment<probs>
  // expected-error@+1 {{failed to legalize operation 'kvq.tile.accumulate_rows'}}
  %r = kvq.tile.accumulate_rows %o, %v, %begin, %end, %p {record = #record, queries = 2 : i64, element = bf16}
    : (!kvq.fragment<output>, !llvm.ptr, i64, i64, !kvq.fragment<probs>) -> !kvq.fragment<output>
  llvm.return
}

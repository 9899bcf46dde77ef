// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
func.func @keys(%k: !llvm.ptr, %begin: i64, %end: i64, %q: !kvq.fragment<query>) {
  // expected-error @below {{'kvq.tile.dot_rows' op expects window rows of f16 or bf16, got 'f32'}}
  %s = kvq.tile.dot_rows %k, %begin, %end, %q {record = #record, queries = 3 : i64, element = f32}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  return
}

// -----

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
func.func @values(%v: !llvm.ptr, %begin: i64, %end: i64, %o: !kvq.fragment<output>, %p: !kvq.fragment<probs>) {
  // expected-error @below {{'kvq.tile.accumulate_rows' op expects window rows of f16 or bf16, got 'f32'}}
  %r = kvq.tile.accumulate_rows %o, %v, %begin, %end, %p {record = #record, queries = 3 : i64, element = f32}
    : (!kvq.fragment<output>, !llvm.ptr, i64, i64, !kvq.fragment<probs>) -> !kvq.fragment<output>
  return
}

// -----

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
func.func @weights(%t: !kvq.fragment<window_softmax>, %o: !kvq.fragment<window_output>, %s: !kvq.fragment<scores>) {
  // expected-error @below {{'kvq.tile.weigh_window' op expects window rows of f16 or bf16, got 'f32'}}
  %t1, %o1, %w = kvq.tile.weigh_window %t, %o, %s {record = #record, queries = 3 : i64, element = f32}
    : (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<scores>)
    -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<window_weights>)
  return
}

// -----

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
func.func @window(%v: !llvm.ptr, %begin: i64, %end: i64, %o: !kvq.fragment<window_output>,
                  %w: !kvq.fragment<window_weights>) {
  // expected-error @below {{'kvq.tile.accumulate_window' op expects window rows of f16 or bf16, got 'f32'}}
  %r = kvq.tile.accumulate_window %o, %v, %begin, %end, %w {record = #record, queries = 3 : i64, element = f32}
    : (!kvq.fragment<window_output>, !llvm.ptr, i64, i64, !kvq.fragment<window_weights>)
    -> !kvq.fragment<window_output>
  return
}

// -----

// Weights of codes are integers, those of window rows are not.
#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
func.func @kinds(%v: !llvm.ptr, %begin: i64, %end: i64, %o: !kvq.fragment<window_output>, %w: !kvq.fragment<weights>) {
  // expected-error @below {{operand #4 must be fragment of window_weights, but got '!kvq.fragment<weights>'}}
  %r = kvq.tile.accumulate_window %o, %v, %begin, %end, %w {record = #record, queries = 3 : i64, element = bf16}
    : (!kvq.fragment<window_output>, !llvm.ptr, i64, i64, !kvq.fragment<weights>) -> !kvq.fragment<window_output>
  return
}

// -----

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
func.func @queries() {
  // expected-error @below {{'kvq.tile.init_window' op expects queries of at least 1, got 0}}
  %t, %o = kvq.tile.init_window {record = #record, queries = 0 : i64}
    : () -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
  return
}

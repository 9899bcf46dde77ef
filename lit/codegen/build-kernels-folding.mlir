// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel is built only where it has a place for every factor of the dequantization.
// RUN: kvq-opt %s --split-input-file --verify-diagnostics --kvq-build-kernels

kvq.pipeline @key {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @key, value = @key, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @decode(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{target cpu expects a folding; run kvq-fuse-attention first}}
  %o = kvq.fused_attention %q, @c scale(0.125) causal : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @key {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @key, value = @key, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @decode(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{target cpu has no place for factor k.scale at query_per_tile}}
  %o = kvq.fused_attention %q, @c scale(0.125) causal folding [#kvq.fold<"k.scale", axes = "d", at = query_per_tile, cost = "none">] : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @key {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @key, value = @key, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @decode(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{target cpu has no place for factor k.scale at bias_per_tile}}
  %o = kvq.fused_attention %q, @c scale(0.125) causal folding [#kvq.fold<"k.scale", axes = "d", at = bias_per_tile, cost = "none">] : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @key {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @key, value = @key, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @decode(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{target cpu has no place for factor k.scale at accumulator}}
  %o = kvq.fused_attention %q, @c scale(0.125) causal folding [#kvq.fold<"k.scale", axes = "d", at = accumulator, cost = "none">] : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @key {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @key, value = @key, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @decode(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{target cpu has no place for factor k.scale at accumulator_per_tile}}
  %o = kvq.fused_attention %q, @c scale(0.125) causal folding [#kvq.fold<"k.scale", axes = "d", at = accumulator_per_tile, cost = "none">] : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @key {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @key, value = @key, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @decode(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{target cpu has no place for factor k.scale at elementwise}}
  %o = kvq.fused_attention %q, @c scale(0.125) causal folding [#kvq.fold<"k.scale", axes = "d", at = elementwise, cost = "none">] : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

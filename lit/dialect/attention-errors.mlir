// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects a scale that is positive and finite, got 0}}
  %o = kvq.attention %q, @c scale(0.0) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects a softcap that is positive and finite, got -1}}
  %o = kvq.attention %q, @c scale(0.125) softcap(-1.0) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects a window of at least 1 token, got 0}}
  %o = kvq.attention %q, @c scale(0.125) window(0) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects q_len of at least 1, got 0}}
  %o = kvq.attention %q, @c scale(0.125) q_len(0) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects sinks @calib::@sinks to name a kvq.constant, found none}}
  %o = kvq.attention %q, @c scale(0.125) sinks(@calib::@sinks) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects @c to name a kvq.cache, found none}}
  %o = kvq.attention %q, @c scale(0.125) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xf32, basis = [hadamard<64>]>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects query and result in the model's own basis, got '!kvq.rows<?x64xf32, basis = [hadamard<64>]>' and '!kvq.rows<?x64xbf16>'}}
  %o = kvq.attention %q, @c scale(0.125) : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-note @below {{the cache is here}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x128xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects a query of head dim 64 and a result of head dim 64, got 128 and 64}}
  %o = kvq.attention %q, @c scale(0.125) : !kvq.rows<?x128xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.constants @calib {
  // expected-note @below {{the constant is here}}
  kvq.constant @s source("sinks") : tensor<2x3x1xf32>
}
kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects sinks @calib::@s of shape [2 or 1, 9, 1], got 'tensor<2x3x1xf32>'}}
  %o = kvq.attention %q, @c scale(0.125) sinks(@calib::@s) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects a softcap that is positive and finite, got INF}}
  %o = kvq.attention %q, @c scale(0.125) softcap(0x7FF0000000000000) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects a scale that is positive and finite, got nan}}
  %o = kvq.attention %q, @c scale(0x7FF8000000000000) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16, basis = [hadamard<64>]> {
  // expected-error @below {{expects query and result in the model's own basis, got '!kvq.rows<?x64xbf16>' and '!kvq.rows<?x64xbf16, basis = [hadamard<64>]>'}}
  %o = kvq.attention %q, @c scale(0.125) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
  return %o : !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
}

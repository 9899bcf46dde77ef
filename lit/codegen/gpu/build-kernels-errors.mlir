// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics --kvq-optimize --kvq-build-kernels=target=sm_90a

kvq.pipeline @p {
  %x = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %x along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i3 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 3, min_form, f16>
}
// expected-error@+1 {{target sm_90a expects 2, 4 or 8 bits for the key, got 3}}
kvq.cache @three {key = @p, value = @p, q_heads = 4, kv_heads = 2, layers = 1, page = 64}

// -----

kvq.pipeline @p {
  %x = kvq.rows : !kvq.rows<?x80xbf16>
  %g = kvq.group %x along channel size 80 : !kvq.rows<?x80xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x80xbf16>, 80>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x80xbf16>, 80, 2, min_form, f16>
}
// expected-error@+1 {{target sm_90a expects a head dim that is a multiple of 32 up to 256 for the key, got 80}}
kvq.cache @dim {key = @p, value = @p, q_heads = 4, kv_heads = 2, layers = 1, page = 64}

// -----

kvq.pipeline @p {
  %x = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %x along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error@+1 {{target sm_90a expects a page of 16, 32 or a multiple of 64 tokens, got 48}}
kvq.cache @page {key = @p, value = @p, q_heads = 4, kv_heads = 2, layers = 1, page = 48}

// -----

kvq.pipeline @p {
  %x = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %x along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error@+1 {{target sm_90a expects 1 to 64 query heads per KV head, got q_heads = 130 and kv_heads = 2}}
kvq.cache @ratio {key = @p, value = @p, q_heads = 130, kv_heads = 2, layers = 1, page = 64}

// -----

kvq.pipeline @p {
  %x = kvq.rows : !kvq.rows<?x64xf32>
  %g = kvq.group %x along channel size 64 : !kvq.rows<?x64xf32>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xf32>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xf32>, 64, 2, min_form, f16>
}
// expected-error@+1 {{target sm_90a expects rotated rows of f16 or of bf16 for high-precision windows, for K as for V, got f32 and f32}}
kvq.cache @sink {key = @p, value = @p, q_heads = 4, kv_heads = 2, layers = 1, page = 64, sink = 64}

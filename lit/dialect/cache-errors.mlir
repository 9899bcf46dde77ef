// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects q_heads to be a positive multiple of kv_heads, got q_heads = 8 and kv_heads = 3}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 8, kv_heads = 3, layers = 2, page = 64}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects q_heads to be a positive multiple of kv_heads, got q_heads = 9 and kv_heads = 0}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 0, layers = 2, page = 64}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects at least one layer, got layers = 0}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 0, page = 64}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects a page that is a multiple of 16 tokens, at most 1048576, got page = 24}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 24}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects windows of 0 or more tokens, got sink = -1 and recent = 0}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64, sink = -1}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects @nobody to name a kvq.pipeline, found none}}
kvq.cache @c {key = @nobody, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.pipeline @half {
  %k = kvq.rows : !kvq.rows<?x64xf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects key and value rows of one element type, got 'bf16' and 'f16'}}
kvq.cache @c {key = @plain, value = @half, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// -----

kvq.constants @calib {
  // expected-note @below {{the constant is here}}
  kvq.constant @m source("k.mean") : tensor<4x3x64xf32>
}
kvq.pipeline @centred {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %c = kvq.center %k by @calib::@m as f32 : !kvq.rows<?x64xbf16>
  %r = kvq.rotate %c by hadamard<64> as bf16 : !kvq.rows<?x64xf32, center = [@calib::@m]>
  %g = kvq.group %r along channel size 64 : !kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m]>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m]>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m]>, 64, 2, min_form, f16>
}
kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects constant @calib::@m for 2 layers and 3 KV heads (or 1), got 'tensor<4x3x64xf32>'}}
kvq.cache @c {key = @centred, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

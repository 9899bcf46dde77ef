// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects q_heads to be a multiple of kv_heads, got q_heads = 8 and kv_heads = 3}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 8, kv_heads = 3, layers = 2, page = 64}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects kv_heads of 1 to 65536, got 0}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 0, layers = 2, page = 64}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects layers of 1 to 65536, got 0}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 0, page = 64}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects a page that is a multiple of 16 tokens, got page = 24}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 24}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects sink of 0 to 1048576, got -1}}
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

// -----

// Query heads are no KV heads.
kvq.constants @calib {
  // expected-note @below {{the constant is here}}
  kvq.constant @m source("k.mean") : tensor<2x9x64xf32>
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
// expected-error @below {{expects constant @calib::@m for 2 layers and 3 KV heads (or 1), got 'tensor<2x9x64xf32>'}}
kvq.cache @c {key = @centred, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects q_heads of 1 to 65536, got -3}}
kvq.cache @c {key = @plain, value = @plain, q_heads = -3, kv_heads = -3, layers = 2, page = 64}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects layers of 1 to 65536, got 9000000000}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 9000000000, page = 64}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects page of 16 to 1048576, got 0}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 0}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects page of 16 to 1048576, got 2097152}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 2097152}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects recent of 0 to 1048576, got -16}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64, recent = -16}

// -----


// A record planned for another page is out of date.
kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects #kvq.record<bytes = 1280, stride = 1280, bits_per_element = 2.500000e+00 : f64> for its pipelines and page, got #kvq.record<bytes = 2560, stride = 2560, bits_per_element = 2.500000e+00 : f64>; leave it out and kvq-plan-layout plans it}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 32} record <bytes = 2560, stride = 2560, bits_per_element = 2.5 : f64>

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects at to name 2 layers of the model, got 3}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64, at = [0, 1, 2]}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects at to name each layer once, got 4 twice}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 3, page = 64, at = [4, 0, 4]}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects at to name layers of 0 to 65535, got -1}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64, at = [0, -1]}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-error @below {{expects at to name layers of 0 to 65535, got 65536}}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 1, page = 64, at = [65536]}

// -----

// The model has fewer layers.
// expected-note @below {{the model is here}}
module attributes {kvq.layers = 4 : i64} {
  kvq.pipeline @plain {
    %k = kvq.rows : !kvq.rows<?x64xbf16>
    %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
    %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
    kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
  }
  // expected-error @below {{expects layers below the 4 of the model, got 4}}
  kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64, at = [0, 4]}
}

// -----

// So it has for a cache that serves its first layers.
// expected-note @below {{the model is here}}
module attributes {kvq.layers = 1 : i64} {
  kvq.pipeline @plain {
    %k = kvq.rows : !kvq.rows<?x64xbf16>
    %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
    %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
    kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
  }
  // expected-error @below {{expects layers below the 1 of the model, got 1}}
  kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
}

// -----

// expected-error @below {{expects kvq.layers on a module, an i64 of 1 to 65536, got 0 : i64}}
module attributes {kvq.layers = 0 : i64} {
}

// -----

// expected-error @below {{expects kvq.layers on a module, an i64 of 1 to 65536, got 4 : i32}}
module attributes {kvq.layers = 4 : i32} {
}

// -----

// expected-error @below {{expects kvq.layers on a module, an i64 of 1 to 65536, got 4 : i64}}
func.func private @f() attributes {kvq.layers = 4 : i64}

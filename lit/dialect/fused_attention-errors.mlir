// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

// expected-note @below {{the key rows are stored here}}
kvq.pipeline @rotated {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %r = kvq.rotate %k by hadamard<64> : !kvq.rows<?x64xbf16>
  %g = kvq.group %r along channel size 64 : !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16, basis = [hadamard<64>]>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16, basis = [hadamard<64>]>, 64, 2, min_form, f16>
}
kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @rotated, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects its query in the basis of the key rows, '!kvq.rows<?x64xbf16, basis = [hadamard<64>]>', got '!kvq.rows<?x64xbf16>'}}
  %o = kvq.fused_attention %q, @c scale(0.125) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-note @below {{the value rows are stored here}}
kvq.pipeline @rotated {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %r = kvq.rotate %k by hadamard<64> : !kvq.rows<?x64xbf16>
  %g = kvq.group %r along channel size 64 : !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16, basis = [hadamard<64>]>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16, basis = [hadamard<64>]>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @rotated, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects its result in the basis of the value rows, '!kvq.rows<?x64xbf16, basis = [hadamard<64>]>', got '!kvq.rows<?x64xbf16>'}}
  %o = kvq.fused_attention %q, @c scale(0.125) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.constants @calib {
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
}
// expected-note @below {{the key rows are centred here}}
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
kvq.cache @c {key = @centred, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xf32, basis = [hadamard<64>]>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects add_key_mean: a softcap is not invariant to the key mean}}
  %o = kvq.fused_attention %q, @c scale(0.125) softcap(50.0) : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.constants @calib {
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
}
kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
// expected-note @below {{the value rows are centred here}}
kvq.pipeline @centred {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %c = kvq.center %k by @calib::@m as f32 : !kvq.rows<?x64xbf16>
  %r = kvq.rotate %c by hadamard<64> as bf16 : !kvq.rows<?x64xf32, center = [@calib::@m]>
  %g = kvq.group %r along channel size 64 : !kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m]>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m]>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m]>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @centred, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xf32, basis = [hadamard<64>]> {
  // expected-error @below {{expects add_value_mean: the output lacks the value mean}}
  %o = kvq.fused_attention %q, @c scale(0.125) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xf32, basis = [hadamard<64>]>
  return %o : !kvq.rows<?x64xf32, basis = [hadamard<64>]>
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
  // expected-error @below {{expects #kvq.fold entries in folding, got 1 : i64}}
  %o = kvq.fused_attention %q, @c scale(0.125) folding [1 : i64] : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.constants @calib {
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
  kvq.constant @s source("sinks") : tensor<2x9x1xf32>
}
!c = !kvq.rows<?x64xbf16, center = [@calib::@m]>
// expected-note @below {{the key rows are centred here}}
kvq.pipeline @centred {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %c = kvq.center %k by @calib::@m : !kvq.rows<?x64xbf16>
  %g = kvq.group %c along channel size 64 : !c
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!c, 64>
  kvq.pack %q native : !kvq.codes<!c, 64, 2, min_form, f16>
}
kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @centred, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects fix_lse: a learned sink is not shifted by the key mean}}
  %o = kvq.fused_attention %q, @c scale(0.125) sinks(@calib::@s) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.constants @calib {
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
  kvq.constant @s source("sinks") : tensor<2x9x1xf32>
}
!c = !kvq.rows<?x64xbf16, center = [@calib::@m]>
// expected-note @below {{the key rows are centred here}}
kvq.pipeline @centred {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %c = kvq.center %k by @calib::@m : !kvq.rows<?x64xbf16>
  %g = kvq.group %c along channel size 64 : !c
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!c, 64>
  kvq.pack %q native : !kvq.codes<!c, 64, 2, min_form, f16>
}
kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @centred, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects add_key_mean or fix_lse, not both: the mean would count twice}}
  %o = kvq.fused_attention %q, @c scale(0.125) add_key_mean fix_lse : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

// expected-note @below {{the key rows are not centred here}}
kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects neither add_key_mean nor fix_lse: there is no key mean}}
  %o = kvq.fused_attention %q, @c scale(0.125) fix_lse : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

// expected-note @below {{the key rows are not centred here}}
kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects neither add_key_mean nor fix_lse: there is no key mean}}
  %o = kvq.fused_attention %q, @c scale(0.125) add_key_mean : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

// expected-note @below {{the value rows are not centred here}}
kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects no add_value_mean: there is no value mean}}
  %o = kvq.fused_attention %q, @c scale(0.125) add_value_mean : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// -----

kvq.constants @calib {
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
  kvq.constant @s source("sinks") : tensor<2x9x1xf32>
}
!c = !kvq.rows<?x64xbf16, center = [@calib::@m]>
kvq.pipeline @centred {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %c = kvq.center %k by @calib::@m : !kvq.rows<?x64xbf16>
  %g = kvq.group %c along channel size 64 : !c
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!c, 64>
  kvq.pack %q native : !kvq.codes<!c, 64, 2, min_form, f16>
}
kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @centred, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @f(%q: !kvq.rows<?x64xbf16, center = [@calib::@m]>) -> !kvq.rows<?x64xbf16> {
  // expected-error @below {{expects query and result without center, got '!kvq.rows<?x64xbf16, center = [@calib::@m]>' and '!kvq.rows<?x64xbf16>'}}
  %o = kvq.fused_attention %q, @c scale(0.125) : !kvq.rows<?x64xbf16, center = [@calib::@m]> -> !kvq.rows<?x64xbf16>
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
  // expected-error @below {{expects @nobody to name a kvq.cache, found none}}
  %o = kvq.fused_attention %q, @nobody scale(0.125) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

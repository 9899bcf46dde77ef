// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

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
kvq.constants @calib {
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
}
kvq.pipeline @centred {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %c = kvq.center %k by @calib::@m as f32 : !kvq.rows<?x64xbf16>
  %r = kvq.rotate %c by hadamard<64> as bf16 : !kvq.rows<?x64xf32, center = [@calib::@m]>
  %g = kvq.group %r along channel size 64 : !kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m]>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m]>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m]>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @rotated, value = @rotated, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
kvq.cache @d {key = @centred, value = @centred, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// CHECK-LABEL: func.func @f0
func.func @f0(%q: !kvq.rows<?x64xf32, basis = [hadamard<64>]>) -> !kvq.rows<?x64xf32, basis = [hadamard<64>]> {
  // CHECK: kvq.fused_attention %{{.*}}, @c scale(1.250000e-01) causal : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xf32, basis = [hadamard<64>]>
  %o = kvq.fused_attention %q, @c scale(1.250000e-01) causal : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xf32, basis = [hadamard<64>]>
  return %o : !kvq.rows<?x64xf32, basis = [hadamard<64>]>
}
// CHECK-LABEL: func.func @f1
func.func @f1(%q: !kvq.rows<?x64xf32, basis = [hadamard<64>]>) -> !kvq.rows<?x64xf32, basis = [hadamard<64>]> {
  // CHECK: kvq.fused_attention %{{.*}}, @d scale(1.250000e-01) causal fix_lse add_value_mean : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xf32, basis = [hadamard<64>]>
  %o = kvq.fused_attention %q, @d scale(1.250000e-01) causal fix_lse add_value_mean : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xf32, basis = [hadamard<64>]>
  return %o : !kvq.rows<?x64xf32, basis = [hadamard<64>]>
}
// CHECK-LABEL: func.func @f2
func.func @f2(%q: !kvq.rows<?x64xf32, basis = [hadamard<64>]>) -> !kvq.rows<?x64xf32, basis = [hadamard<64>]> {
  // CHECK: kvq.fused_attention %{{.*}}, @d scale(1.250000e-01) softcap(5.000000e+01) add_key_mean add_value_mean : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xf32, basis = [hadamard<64>]>
  %o = kvq.fused_attention %q, @d scale(1.250000e-01) softcap(5.000000e+01) add_key_mean add_value_mean : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xf32, basis = [hadamard<64>]>
  return %o : !kvq.rows<?x64xf32, basis = [hadamard<64>]>
}
// CHECK-LABEL: func.func @f3
func.func @f3(%q: !kvq.rows<?x64xf32, basis = [hadamard<64>]>) -> !kvq.rows<?x64xf32, basis = [hadamard<64>]> {
  // CHECK: kvq.fused_attention %{{.*}}, @c scale(1.250000e-01) causal folding [#kvq.fold<"k.scale", axes = "t, g", at = score_per_group, cost = "4 per token">] : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xf32, basis = [hadamard<64>]>
  %o = kvq.fused_attention %q, @c scale(1.250000e-01) causal folding [#kvq.fold<"k.scale", axes = "t, g", at = score_per_group, cost = "4 per token">] : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xf32, basis = [hadamard<64>]>
  return %o : !kvq.rows<?x64xf32, basis = [hadamard<64>]>
}

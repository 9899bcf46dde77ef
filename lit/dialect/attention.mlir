// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.constants @calib {
  kvq.constant @sinks : tensor<2x9x1xf32> = dense<0.0> : tensor<2x9x1xf32>
}
kvq.cache @c {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// CHECK-LABEL: func.func @f0
func.func @f0(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // CHECK: kvq.attention %{{.*}}, @c scale(1.250000e-01) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  %o = kvq.attention %q, @c scale(1.250000e-01) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}
// CHECK-LABEL: func.func @f1
func.func @f1(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // CHECK: kvq.attention %{{.*}}, @c scale(1.250000e-01) causal : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  %o = kvq.attention %q, @c scale(1.250000e-01) causal : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}
// CHECK-LABEL: func.func @f2
func.func @f2(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // CHECK: kvq.attention %{{.*}}, @c scale(1.250000e-01) causal softcap(5.000000e+01) window(4096) sinks(@calib::@sinks) q_len(4) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  %o = kvq.attention %q, @c scale(1.250000e-01) causal softcap(5.000000e+01) window(4096) sinks(@calib::@sinks) q_len(4) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}

// Keys and values may differ in head dim; one layer of sinks serves all.
kvq.constants @shared {
  kvq.constant @sinks source("sinks") : tensor<1x9x1xf32>
}
kvq.pipeline @wide {
  %k = kvq.rows : !kvq.rows<?x96xbf16>
  %g = kvq.group %k along channel size 32 : !kvq.rows<?x96xbf16>
  %q = kvq.round %g to i4 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x96xbf16>, 32>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x96xbf16>, 32, 4, min_form, f16>
}
kvq.cache @two_dims {key = @wide, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// CHECK-LABEL: func.func @two_dims_attention
func.func @two_dims_attention(%q: !kvq.rows<?x96xbf16>) -> !kvq.rows<?x64xf32> {
  // CHECK: kvq.attention %{{.*}}, @two_dims scale(1.000000e-01) sinks(@shared::@sinks) : !kvq.rows<?x96xbf16> -> !kvq.rows<?x64xf32>
  %o = kvq.attention %q, @two_dims scale(0.1) sinks(@shared::@sinks) : !kvq.rows<?x96xbf16> -> !kvq.rows<?x64xf32>
  return %o : !kvq.rows<?x64xf32>
}

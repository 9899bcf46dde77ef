// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-place-rotations --split-input-file | FileCheck %s
// RUN: kvq-opt %s --kvq-place-rotations=output=weights --split-input-file | FileCheck %s --check-prefix=WEIGHTS

!rows = !kvq.rows<?x64xbf16>
!h = !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
!u = !kvq.rows<?x64xbf16, basis = [dense<@calib::@u>, hadamard<64>]>
kvq.constants @calib {
  kvq.constant @u source("v.rotation") : tensor<2x3x64x64xf32>
}
kvq.pipeline @plain {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 64 : !rows
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!rows, 64>
  kvq.pack %q native : !kvq.codes<!rows, 64, 2, min_form, f16>
}
kvq.pipeline @turned {
  %x = kvq.rows : !rows
  %r = kvq.rotate %x by hadamard<64> : !rows
  %g = kvq.group %r along channel size 64 : !h
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!h, 64>
  kvq.pack %q native : !kvq.codes<!h, 64, 2, min_form, f16>
}
kvq.pipeline @dense {
  %x = kvq.rows : !rows
  %r = kvq.rotate %x by [dense<@calib::@u>, hadamard<64>] : !rows
  %g = kvq.group %r along channel size 64 : !u
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!u, 64>
  kvq.pack %q native : !kvq.codes<!u, 64, 2, min_form, f16>
}
kvq.cache @cache {key = @turned, value = @turned, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
kvq.cache @none {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
kvq.cache @swapped {key = @dense, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
kvq.cache @mixed {key = @plain, value = @dense, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// The example of the pass.
// CHECK-LABEL: func.func @both
// CHECK-SAME:  (%[[Q:.*]]: !kvq.rows<?x64xbf16>)
// CHECK-NEXT:  %[[R:.*]] = kvq.rotate %[[Q]] by [hadamard<64>] as f32 : !kvq.rows<?x64xbf16>
// CHECK-NEXT:  %[[F:.*]] = kvq.fused_attention %[[R]], @cache scale(1.250000e-01) causal
// CHECK-SAME:    : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xf32, basis = [hadamard<64>]>
// CHECK-NEXT:  %[[O:.*]] = kvq.rotate %[[F]] by [hadamard<64>] as bf16 : !kvq.rows<?x64xf32, basis = [hadamard<64>]>
// CHECK-NEXT:  return %[[O]] : !kvq.rows<?x64xbf16>

// The output projection takes the rotation over.
// WEIGHTS-LABEL: func.func @both
// WEIGHTS-SAME:  -> !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
// WEIGHTS-SAME:  attributes {kvq.output_weights = [#kvq.hadamard<64>]}
// WEIGHTS:       %[[F:.*]] = kvq.fused_attention %{{.*}}, @cache scale(1.250000e-01) causal
// WEIGHTS-SAME:    -> !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
// WEIGHTS-NEXT:  return %[[F]] : !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
func.func @both(%q: !rows) -> !rows {
  %o = kvq.attention %q, @cache scale(0.125) causal : !rows -> !rows
  return %o : !rows
}

// Nothing to rotate: neither query nor output is touched, with weights or without.
// CHECK-LABEL: func.func @neither
// CHECK-SAME:  (%[[Q:.*]]: !kvq.rows<?x64xbf16>)
// CHECK-NEXT:  %[[F:.*]] = kvq.fused_attention %[[Q]], @none scale(1.250000e-01) softcap(3.000000e+01) window(128) q_len(4) : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
// CHECK-NEXT:  return %[[F]]
// WEIGHTS-LABEL: func.func @neither
// WEIGHTS-NOT:   kvq.output_weights
func.func @neither(%q: !rows) -> !rows {
  %o = kvq.attention %q, @none scale(0.125) softcap(30.0) window(128) q_len(4) : !rows -> !rows
  return %o : !rows
}

// A product is undone in reverse, dense factors by their transpose.
// CHECK-LABEL: func.func @product
// CHECK-SAME:  (%[[Q:.*]]: !kvq.rows<?x64xbf16>)
// CHECK-NEXT:  %[[F:.*]] = kvq.fused_attention %[[Q]], @mixed
// CHECK-NEXT:  kvq.rotate %[[F]] by [hadamard<64>, dense<@calib::@u inverse>] as bf16
// WEIGHTS-LABEL: func.func @product
// WEIGHTS-SAME:  kvq.output_weights = [#kvq.hadamard<64>, #kvq.dense<@calib::@u inverse>]
func.func @product(%q: !rows) -> !rows {
  %o = kvq.attention %q, @mixed scale(0.125) causal : !rows -> !rows
  return %o : !rows
}

// The query goes the way of the keys, forward: a product in its own order, dense factors as they are.
// CHECK-LABEL: func.func @query
// CHECK-SAME:  (%[[Q:.*]]: !kvq.rows<?x64xbf16>)
// CHECK-NEXT:  %[[R:.*]] = kvq.rotate %[[Q]] by [dense<@calib::@u>, hadamard<64>] as f32
// CHECK-NEXT:  %[[F:.*]] = kvq.fused_attention %[[R]], @swapped
// CHECK-NEXT:  return %[[F]]
func.func @query(%q: !rows) -> !rows {
  %o = kvq.attention %q, @swapped scale(0.125) causal : !rows -> !rows
  return %o : !rows
}

// Does not fire: there is nothing in the model's basis.
// CHECK-LABEL: func.func @placed
// CHECK-NEXT:  %[[F:.*]] = kvq.fused_attention
// CHECK-NEXT:  return %[[F]]
func.func @placed(%q: !h) -> !h {
  %o = kvq.fused_attention %q, @cache scale(0.125) causal : !h -> !h
  return %o : !h
}

// -----

!rows = !kvq.rows<?x64xbf16>
!c = !kvq.rows<?x64xbf16, center = [@calib::@m]>
kvq.constants @calib {
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
  kvq.constant @sinks source("sinks") : tensor<2x9x1xf32>
}
kvq.pipeline @centred {
  %x = kvq.rows : !rows
  %c = kvq.center %x by @calib::@m : !rows
  %g = kvq.group %c along channel size 64 : !c
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!c, 64>
  kvq.pack %q native : !kvq.codes<!c, 64, 2, min_form, f16>
}
kvq.pipeline @plain {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 64 : !rows
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!rows, 64>
  kvq.pack %q native : !kvq.codes<!rows, 64, 2, min_form, f16>
}
kvq.cache @keys {key = @centred, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
kvq.cache @values {key = @plain, value = @centred, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// Softmax does not see the shift; the exported log-sum-exp does.
// CHECK-LABEL: func.func @softmax
// CHECK:       kvq.fused_attention %{{.*}}, @keys scale(1.250000e-01) causal fix_lse : !kvq.rows<?x64xbf16> ->
func.func @softmax(%q: !rows) -> !rows {
  %o = kvq.attention %q, @keys scale(0.125) causal : !rows -> !rows
  return %o : !rows
}

// So does a learned sink: it joins the log-sum-exp behind that.
// CHECK-LABEL: func.func @sink
// CHECK:       kvq.fused_attention %{{.*}}, @keys scale(1.250000e-01) causal sinks(@calib::@sinks) fix_lse :
func.func @sink(%q: !rows) -> !rows {
  %o = kvq.attention %q, @keys scale(0.125) causal sinks(@calib::@sinks) : !rows -> !rows
  return %o : !rows
}

// A softcap sees the shift: it is put back before the cap, and then the log-sum-exp is right. So is a sink beside it.
// CHECK-LABEL: func.func @softcap
// CHECK:       kvq.fused_attention %{{.*}}, @keys scale(1.250000e-01) causal softcap(3.000000e+01) sinks(@calib::@sinks) add_key_mean :
func.func @softcap(%q: !rows) -> !rows {
  %o = kvq.attention %q, @keys scale(0.125) causal softcap(30.0) sinks(@calib::@sinks) : !rows -> !rows
  return %o : !rows
}

// Sinks do not mind centred values, whose mean is added to the output.
// CHECK-LABEL: func.func @value
// CHECK:       kvq.fused_attention %{{.*}}, @values scale(1.250000e-01) causal sinks(@calib::@sinks) add_value_mean :
func.func @value(%q: !rows) -> !rows {
  %o = kvq.attention %q, @values scale(0.125) causal sinks(@calib::@sinks) : !rows -> !rows
  return %o : !rows
}

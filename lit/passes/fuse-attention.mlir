// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-fuse-attention | FileCheck %s
// RUN: kvq-opt %s --kvq-fuse-attention=integer-weights | FileCheck %s --check-prefix=INTEGER
// RUN: kvq-opt %s --kvq-fuse-attention --remarks-filter='kvq.*' --remark-format=emitRemark -o %t 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: kvq-opt %s --kvq-fuse-attention --kvq-fuse-attention -o %t.twice.mlir
// RUN: kvq-opt %s --kvq-fuse-attention -o %t.once.mlir
// RUN: diff %t.once.mlir %t.twice.mlir

!rows = !kvq.rows<?x64xbf16>
!h = !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
!h32 = !kvq.rows<?x64xf32, basis = [hadamard<64>]>
!c32 = !kvq.rows<?x64xf32, center = [@calib::@m]>
!ch = !kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m]>
kvq.constants @calib {
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
}
kvq.pipeline @plain {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 64 : !rows
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!rows, 64>
  kvq.pack %q native : !kvq.codes<!rows, 64, 2, min_form, f16>
}
kvq.pipeline @groups {
  %x = kvq.rows : !rows
  %r = kvq.rotate %x by hadamard<64> : !rows
  %g = kvq.group %r along channel size 32 : !h
  %q = kvq.round %g to i4 half_up zero_form params f16 stored : !kvq.grouped<!h, 32>
  kvq.pack %q native : !kvq.codes<!h, 32, 4, zero_form, f16>
}
kvq.pipeline @sym {
  %x = kvq.rows : !rows
  %c = kvq.center %x by @calib::@m as f32 : !rows
  %r = kvq.rotate %c by hadamard<64> as bf16 : !c32
  %g = kvq.group %r along channel size 64 : !ch
  %q = kvq.round %g to i2 half_up sym_form params f16 stored : !kvq.grouped<!ch, 64>
  kvq.pack %q native : !kvq.codes<!ch, 64, 2, sym_form, f16>
}
kvq.cache @plain_cache {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
kvq.cache @grouped {key = @groups, value = @groups, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
kvq.cache @centred {key = @sym, value = @sym, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// CHECK-LABEL: func.func @min
// CHECK:       folding [#kvq.fold<"k.scale", axes = "t", at = score, cost = "1 per token, 0 per tile, 0 per query">,
// CHECK-SAME:    #kvq.fold<"k.zero", axes = "t", at = bias_per_token, cost = "1 per token, 0 per tile, 64 per query">,
// CHECK-SAME:    #kvq.fold<"v.scale", axes = "t", at = probability, cost = "1 per token, 0 per tile, 0 per query">,
// CHECK-SAME:    #kvq.fold<"v.zero", axes = "t", at = bias_per_token, cost = "1 per token, 0 per tile, 64 per query">]
// Rounded weights carry the deviation from the middle of the code, exact ones the middle.
// INTEGER-LABEL: func.func @min
// INTEGER:       #kvq.fold<"v.-mid", axes = "constant", at = accumulator,
// INTEGER-SAME:  #kvq.fold<"v.mid", axes = "constant", at = bias_constant,
func.func @min(%q: !rows) -> !rows {
  // REMARK: [[@LINE+6]]:8: remark: [Passed] key | Category:kvq-fuse-attention | Remark="scale (t) goes to score: 1 per token, 0 per tile, 0 per query"
  // REMARK: [Passed] key {{.*}}"zero (t) goes to bias_per_token: 1 per token, 0 per tile, 64 per query"
  // REMARK: [Passed] key {{.*}}"in all 2 per token, 0 per tile, 64 per query"
  // REMARK: [Passed] value {{.*}}"scale (t) goes to probability: 1 per token, 0 per tile, 0 per query"
  // REMARK: [Passed] value {{.*}}"zero (t) goes to bias_per_token: 1 per token, 0 per tile, 64 per query"
  // REMARK: [Passed] value {{.*}}"in all 2 per token, 0 per tile, 64 per query"
  %o = kvq.fused_attention %q, @plain_cache scale(0.125) causal : !rows -> !rows
  return %o : !rows
}

// A set of parameters per group: scores and probabilities per group, and the rotation on the far side of the query.
// CHECK-LABEL: func.func @zero
// CHECK:       "k.zero", axes = "t, g", at = bias_per_token, cost = "2 per token, 0 per tile, 64 per query"
// CHECK-SAME:  "k.scale", axes = "t, g", at = score_per_group, cost = "2 per token, 0 per tile, 0 per query"
// CHECK-SAME:  "k.hadamard", axes = "constant", at = query, cost = "0 per token, 0 per tile, 384 per query"
// CHECK-SAME:  "v.scale", axes = "t, g", at = probability_per_group
// CHECK-SAME:  "v.hadamard", axes = "constant", at = output, cost = "0 per token, 0 per tile, 384 per query"
func.func @zero(%q: !rows) -> !rows {
  %r = kvq.rotate %q by hadamard<64> as f32 : !rows
  %o = kvq.fused_attention %r, @grouped scale(0.125) causal : !h32 -> !h32
  %b = kvq.rotate %o by hadamard<64> as bf16 : !h32
  return %b : !rows
}

// The middle starts the integer sum; the mean of the keys enters the log-sum-exp, that of the values the output.
// CHECK-LABEL: func.func @symmetric
// CHECK:       "k.mid", axes = "constant", at = accumulator
// CHECK-SAME:  "k.calib.m", axes = "d", at = log_sum_exp, cost = "0 per token, 0 per tile, 64 per query"
// CHECK-SAME:  "v.calib.m", axes = "d", at = bias_constant, cost = "0 per token, 0 per tile, 64 per query"
func.func @symmetric(%q: !rows) -> !rows {
  %r = kvq.rotate %q by hadamard<64> as f32 : !rows
  %o = kvq.fused_attention %r, @centred scale(0.125) causal fix_lse add_value_mean : !h32 -> !h32
  %b = kvq.rotate %o by hadamard<64> as bf16 : !h32
  return %b : !rows
}

// Without fix_lse nobody sees the mean of the keys; with a softcap it comes before the cap.
// CHECK-LABEL: func.func @shift
// CHECK:       "k.calib.m", axes = "d", at = dropped, cost = "0 per token, 0 per tile, 0 per query"
// CHECK:       "k.calib.m", axes = "d", at = bias_constant, cost = "0 per token, 0 per tile, 64 per query"
func.func @shift(%q: !h32) -> !h32 {
  %o = kvq.fused_attention %q, @centred scale(0.125) causal add_value_mean : !h32 -> !h32
  %p = kvq.fused_attention %q, @centred scale(0.125) causal softcap(30.0) add_key_mean add_value_mean : !h32 -> !h32
  return %p : !h32
}

// The result keeps the basis of the values: their rotation meets the one in the output projection and costs nothing.
// CHECK-LABEL: func.func @weights
// CHECK:       "v.hadamard", axes = "constant", at = output, cost = "0 per token, 0 per tile, 0 per query"
// CHECK-SAME:  "v.hadamard", axes = "constant", at = output, cost = "0 per token, 0 per tile, 0 per query"
func.func @weights(%q: !h32) -> !h {
  %o = kvq.fused_attention %q, @grouped scale(0.125) causal : !h32 -> !h
  return %o : !h
}

// Does not fire: the folding is there.
// CHECK-LABEL: func.func @folded
// CHECK:       folding []
// CHECK:       return
func.func @folded(%q: !rows) -> !rows {
  %o = kvq.fused_attention %q, @plain_cache scale(0.125) causal folding [] : !rows -> !rows
  return %o : !rows
}

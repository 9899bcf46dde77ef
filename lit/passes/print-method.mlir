// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-print-method -o %t | FileCheck %s
// RUN: kvq-opt %s --kvq-print-method=constants -o %t | FileCheck %s --check-prefix=CONSTANTS

!rows = !kvq.rows<?x64xbf16>
!c = !kvq.rows<?x64xf32, center = [@calib::@m]>
!k = !kvq.rows<?x64xbf16, basis = [dense<@calib::@u inverse>, hadamard<64>], center = [@calib::@m]>
!q = !kvq.rows<?x64xf32, basis = [dense<@calib::@u inverse>, hadamard<64>]>
!v = !kvq.rows<?x64xbf16, basis = [block_hadamard<32>]>
kvq.constants @calib {
  kvq.constant @u : tensor<1x3x64x64xf32> = dense<0.125> : tensor<1x3x64x64xf32>
  kvq.constant @m : tensor<2x1x64xf32> = dense<0.5> : tensor<2x1x64xf32>
  kvq.constant @unused source("k.other") : tensor<2x1x64xf32>
}
kvq.pipeline @key {
  %x = kvq.rows : !rows
  %c = kvq.center %x by @calib::@m as f32 : !rows
  %r = kvq.rotate %c by [dense<@calib::@u inverse>, hadamard<64>] as bf16 : !c
  %l = kvq.clip %r order_statistic(0.75) per group : !k
  %g = kvq.group %l along channel size 32 : !k
  %q = kvq.round %g to i3 half_even zero_form params bf16 exact : !kvq.grouped<!k, 32>
  kvq.pack %q native : !kvq.codes<!k, 32, 3, zero_form, bf16>
}
kvq.pipeline @value {
  %x = kvq.rows : !rows
  %r = kvq.rotate %x by block_hadamard<32> : !rows
  %g = kvq.group %r along channel size 64 : !v
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!v, 64>
  kvq.pack %q native : !kvq.codes<!v, 64, 2, min_form, f16>
}
kvq.cache @cache {key = @key, value = @value, q_heads = 9, kv_heads = 3, layers = 2, page = 32}
func.func @decode(%x: !rows) -> !v {
  %r = kvq.rotate %x by [dense<@calib::@u inverse>, hadamard<64>] as f32 : !rows
  %o = kvq.fused_attention %r, @cache scale(0.5) causal fix_lse : !q -> !v
  return %o : !v
}

// CHECK:      "name": "cache",
// CHECK-NEXT: "q_heads": 9,
// CHECK-NEXT: "kv_heads": 3,
// CHECK-NEXT: "layers": 2,
// CHECK-NEXT: "page": 32,
// CHECK:      "key": {
// CHECK:        "bits": 3,
// CHECK-NEXT:   "form": "zero",
// CHECK-NEXT:   "group": 32,
// CHECK-NEXT:   "parameters": "bf16",
// CHECK:        "rows": "bf16",
// CHECK-NEXT:   "tie": "half_even",
// CHECK-NEXT:   "codes_from": "exact",
// CHECK:          "step": "center",
// CHECK-NEXT:     "mean": 0,
// CHECK-NEXT:     "result": "f32"
// CHECK:          "step": "rotate",
// CHECK:            "factor": "dense",
// CHECK-NEXT:       "constant": 1,
// CHECK-NEXT:       "inverse": true
// CHECK:            "factor": "hadamard",
// CHECK-NEXT:       "order": 64
// CHECK:          "result": "bf16"
// CHECK:          "step": "clip",
// CHECK-NEXT:     "clip": "order_statistic",
// CHECK-NEXT:     "value": 0.75,
// CHECK-NEXT:     "scope": "group"
// CHECK:      "value": {
// CHECK:        "form": "min",
// CHECK-NEXT:   "group": 0,
// CHECK:            "factor": "block_hadamard",
// CHECK-NEXT:       "order": 32
// The caller's rows are bf16; the query is rotated here, the output is left in the basis of the values.
// CHECK:      "attention": {
// CHECK-NEXT:   "scale": 0.5,
// CHECK-NEXT:   "causal": true,
// CHECK-NEXT:   "rotate_query": true,
// CHECK-NEXT:   "unrotate_output": false,
// CHECK-NEXT:   "rows": "bf16"
// CHECK:      "constants": [
// CHECK:        "name": "calib.m",
// CHECK-NEXT:   "offset": 0,
// CHECK:        "name": "calib.u",
// CHECK-NEXT:   "offset": 1536,
// CHECK-NOT:    "calib.unused"

// Extents of 1 are repeated: 2 x 3 x 64 and 2 x 3 x 64 x 64 values.
// CONSTANTS:      constants: 99840 bytes
// CONSTANTS-NEXT:   calib.m at 0: 0.5 0.5 0.5 0.5 0.5 0.5
// CONSTANTS-NEXT:   calib.u at 1536: 0.125 0.125 0.125 0.125 0.125 0.125

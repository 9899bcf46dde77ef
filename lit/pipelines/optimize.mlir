// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The whole pipeline with its options: a calibration file, a rotation that the file shows to do nothing, and weights.
// RUN: python3 %S/../passes/Inputs/make_calibration.py %t.safetensors
// RUN: kvq-opt %s '--kvq-optimize=calibration=%t.safetensors output=weights' | FileCheck %s
// RUN: not kvq-opt %s --kvq-optimize=calibration=%t.absent 2>&1 | FileCheck %s --check-prefix=ABSENT

!rows = !kvq.rows<?x32xbf16>
!k32 = !kvq.rows<?x32xf32, basis = [hadamard<32>]>
!k = !kvq.rows<?x32xbf16, basis = [hadamard<32>, dense<@calib::@shift>]>
!v = !kvq.rows<?x32xbf16, basis = [hadamard<32>]>
kvq.constants @calib {
  kvq.constant @shift source("k.rotation") : tensor<3x3x32x32xf32>
}

// A cyclic shift of the channels before one group: it drops out once its values are known.
// CHECK-LABEL: kvq.pipeline @key
// CHECK:         kvq.rotate %{{.*}} by [hadamard<32>] : !kvq.rows<?x32xbf16>
// CHECK-NEXT:    kvq.group
kvq.pipeline @key {
  %x = kvq.rows : !rows
  %a = kvq.rotate %x by hadamard<32> as f32 : !rows
  %b = kvq.rotate %a by dense<@calib::@shift> as bf16 : !k32
  %l = kvq.clip %b order_statistic(1.0) per row : !k
  %g = kvq.group %l along channel size 32 : !k
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!k, 32>
  kvq.pack %q native : !kvq.codes<!k, 32, 2, min_form, f16>
}
kvq.pipeline @value {
  %x = kvq.rows : !rows
  %r = kvq.rotate %x by hadamard<32> : !rows
  %g = kvq.group %r along channel size 32 : !v
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!v, 32>
  kvq.pack %q native : !kvq.codes<!v, 32, 2, min_form, f16>
}
kvq.cache @cache {key = @key, value = @value, q_heads = 6, kv_heads = 3, layers = 3, page = 64}
// CHECK-LABEL: func.func @cache_decode
// CHECK-SAME:    kvq.output_weights = [#kvq.hadamard<32>]
// CHECK-NEXT:    kvq.rotate %{{.*}} by [hadamard<32>] as f32
// CHECK-NEXT:    kvq.fused_attention
// CHECK-NEXT:    return

// ABSENT: error: cannot read calibration '{{.*}}.absent'

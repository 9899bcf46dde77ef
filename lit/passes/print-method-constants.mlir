// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Extents of 1 in front serve all layers, or all heads. Learned sinks have one number for each query head.
// RUN: kvq-opt %s --kvq-print-method=constants -o %t | FileCheck %s

!rows = !kvq.rows<?x32xf16>
!a = !kvq.rows<?x32xf16, center = [@t::@layers]>
!b = !kvq.rows<?x32xf16, center = [@t::@heads]>
kvq.constants @t {
  kvq.constant @layers : tensor<3x1x32xf32> =
    dense<[[[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]],
           [[2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]],
           [[3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]]]> : tensor<3x1x32xf32>
  kvq.constant @heads : tensor<1x2x32xf32> =
    dense<[[[4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0],
            [5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]]]> : tensor<1x2x32xf32>
}
kvq.constants @model {
  kvq.constant @sinks : tensor<1x4x1xf32> = dense<[[[6.0], [7.0], [8.0], [9.0]]]> : tensor<1x4x1xf32>
}
kvq.pipeline @key {
  %x = kvq.rows : !rows
  %c = kvq.center %x by @t::@layers : !rows
  %g = kvq.group %c along channel size 32 : !a
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!a, 32>
  kvq.pack %q native : !kvq.codes<!a, 32, 2, min_form, f16>
}
kvq.pipeline @value {
  %x = kvq.rows : !rows
  %c = kvq.center %x by @t::@heads : !rows
  %g = kvq.group %c along channel size 32 : !b
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!b, 32>
  kvq.pack %q native : !kvq.codes<!b, 32, 2, min_form, f16>
}
kvq.cache @cache {key = @key, value = @value, q_heads = 4, kv_heads = 2, layers = 3, page = 64}
func.func @decode(%q: !rows) -> !rows {
  %o = kvq.fused_attention %q, @cache scale(0.5) causal sinks(@model::@sinks) fix_lse add_value_mean : !rows -> !rows
  return %o : !rows
}

// CHECK:      "rows": "f16"
// CHECK:      "sinks": 2
// CHECK:      constants: 1600 bytes
// CHECK-NEXT:   t.layers at 0: 1 1 2 2 3 3
// CHECK-NEXT:   t.heads at 768: 4 5 4 5 4 5
// CHECK-NEXT:   model.sinks at 1536: 6 7 8 9 6 7 8 9 6 7 8 9

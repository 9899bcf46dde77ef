// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-default-attention --split-input-file | FileCheck %s

!rows = !kvq.rows<?x64xbf16>
!wide = !kvq.rows<?x96xbf16>
kvq.pipeline @key {
  %x = kvq.rows : !wide
  %g = kvq.group %x along channel size 96 : !wide
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!wide, 96>
  kvq.pack %q native : !kvq.codes<!wide, 96, 2, min_form, f16>
}
kvq.pipeline @value {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 64 : !rows
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!rows, 64>
  kvq.pack %q native : !kvq.codes<!rows, 64, 2, min_form, f16>
}
kvq.cache @read {key = @value, value = @value, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
kvq.cache @fused {key = @value, value = @value, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
kvq.cache @cache {key = @value, value = @value, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
kvq.cache @uneven {key = @key, value = @value, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// A cache that attention reads, fused or not, gets none.
// CHECK-LABEL: func.func @mine
func.func @mine(%q: !rows) -> !rows {
  // CHECK: kvq.attention %{{.*}}, @read scale(5.000000e-01) :
  %o = kvq.attention %q, @read scale(0.5) : !rows -> !rows
  %p = kvq.fused_attention %o, @fused scale(0.5) : !rows -> !rows
  return %p : !rows
}

// CHECK-NOT: func.func @read_decode
// CHECK-NOT: func.func @fused_decode
// CHECK-LABEL: func.func @cache_decode
// CHECK-SAME:  (%[[Q:.*]]: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16>
// CHECK:       %[[O:.*]] = kvq.attention %[[Q]], @cache scale(1.250000e-01) causal : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
// CHECK:       return %[[O]]

// The scale comes from the keys, the width of the result from the values.
// CHECK-LABEL: func.func @uneven_decode
// CHECK-SAME:  (%{{.*}}: !kvq.rows<?x96xbf16>) -> !kvq.rows<?x64xbf16>
// CHECK:       scale(0.10206207261596577) causal : !kvq.rows<?x96xbf16> -> !kvq.rows<?x64xbf16>
// CHECK-NOT: func.func

// -----

// Nothing to do without a cache.
// CHECK-LABEL: func.func private @lonely
// CHECK-NOT:   func.func
func.func private @lonely()

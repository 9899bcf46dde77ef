// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-place-rotations=output=weights --split-input-file --verify-diagnostics
// RUN: not kvq-opt %s --kvq-place-rotations=output=bias --split-input-file 2>&1 | FileCheck %s

// CHECK: error: kvq-place-rotations expects output=rotate or output=weights, got 'bias'

!rows = !kvq.rows<?x64xbf16>
!h = !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
// expected-note @below {{the values are rotated here}}
kvq.pipeline @turned {
  %x = kvq.rows : !rows
  %r = kvq.rotate %x by hadamard<64> : !rows
  %g = kvq.group %r along channel size 64 : !h
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!h, 64>
  kvq.pack %q native : !kvq.codes<!h, 64, 2, min_form, f16>
}
kvq.cache @cache {key = @turned, value = @turned, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @used(%q: !rows) -> !rows {
  // expected-error @below {{cannot leave its result in the basis of the values: something other than a return uses it}}
  %o = kvq.attention %q, @cache scale(0.125) causal : !rows -> !rows
  // expected-note @below {{used here}}
  %p = kvq.attention %o, @cache scale(0.125) causal : !rows -> !rows
  return %p : !rows
}

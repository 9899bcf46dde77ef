// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-default-attention --verify-diagnostics

!rows = !kvq.rows<?x64xbf16>
kvq.pipeline @key {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 64 : !rows
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!rows, 64>
  kvq.pack %q native : !kvq.codes<!rows, 64, 2, min_form, f16>
}
// expected-error @below {{expects the name @cache_decode to be free for its attention, or an attention that reads the cache}}
kvq.cache @cache {key = @key, value = @key, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
// expected-note @below {{the name is taken here}}
func.func private @cache_decode()

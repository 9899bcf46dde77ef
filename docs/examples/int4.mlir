// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keys and values in 4 bits, per token.
!rows = !kvq.rows<?x64xbf16>

kvq.pipeline @key {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 64 : !rows
  %q = kvq.round %g to i4 half_up min_form params f16 stored : !kvq.grouped<!rows, 64>
  kvq.pack %q native : !kvq.codes<!rows, 64, 4, min_form, f16>
}

kvq.pipeline @value {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 64 : !rows
  %q = kvq.round %g to i4 half_up min_form params f16 stored : !kvq.grouped<!rows, 64>
  kvq.pack %q native : !kvq.codes<!rows, 64, 4, min_form, f16>
}

kvq.cache @cache {key = @key, value = @value, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

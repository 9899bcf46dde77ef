// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The record of a common head: 128 channels, 2 bits, a page of 64 tokens. V has no zero, and 16 tokens are padded.
!rows = !kvq.rows<?x128xbf16>

kvq.pipeline @key {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 128 : !rows
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!rows, 128>
  kvq.pack %q native : !kvq.codes<!rows, 128, 2, min_form, f16>
}
kvq.pipeline @value {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 128 : !rows
  %q = kvq.round %g to i2 half_up sym_form params f16 stored : !kvq.grouped<!rows, 128>
  kvq.pack %q native : !kvq.codes<!rows, 128, 2, sym_form, f16>
}

kvq.cache @head {key = @key, value = @value, q_heads = 8, kv_heads = 2, layers = 2, page = 64}

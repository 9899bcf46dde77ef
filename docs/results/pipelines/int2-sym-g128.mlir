// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The geometry of the benchmark: 32 query and 8 KV heads of 128, plain rows.
!rows = !kvq.rows<?x128xbf16>
kvq.pipeline @key {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 128 : !rows
  %q = kvq.round %g to i2 half_up sym_form params f16 stored : !kvq.grouped<!rows, 128>
  kvq.pack %q native : !kvq.codes<!rows, 128, 2, sym_form, f16>
}
kvq.pipeline @value {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 128 : !rows
  %q = kvq.round %g to i2 half_up sym_form params f16 stored : !kvq.grouped<!rows, 128>
  kvq.pack %q native : !kvq.codes<!rows, 128, 2, sym_form, f16>
}
kvq.cache @cache {key = @key, value = @value, q_heads = 32, kv_heads = 8, layers = 1, page = 64}


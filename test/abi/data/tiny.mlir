// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The smallest cache: 32 channels, 2 bits around zero, one head.
!rows = !kvq.rows<?x32xbf16>

kvq.pipeline @side {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 32 : !rows
  %q = kvq.round %g to i2 half_up sym_form params f16 stored : !kvq.grouped<!rows, 32>
  kvq.pack %q native : !kvq.codes<!rows, 32, 2, sym_form, f16>
}

kvq.cache @tiny {key = @side, value = @side, q_heads = 1, kv_heads = 1, layers = 1, page = 16}

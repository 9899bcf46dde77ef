// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rotated rows in 2 bits, the first 20 and the last 100 in high precision.
!rows = !kvq.rows<?x64xbf16>
!turned = !kvq.rows<?x64xbf16, basis = [hadamard<64>]>

kvq.pipeline @key {
  %x = kvq.rows : !rows
  %r = kvq.rotate %x by hadamard<64> : !rows
  %l = kvq.clip %r order_statistic(0.96) per row : !turned
  %g = kvq.group %l along channel size 64 : !turned
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!turned, 64>
  kvq.pack %q native : !kvq.codes<!turned, 64, 2, min_form, f16>
}

kvq.pipeline @value {
  %x = kvq.rows : !rows
  %r = kvq.rotate %x by hadamard<64> : !rows
  %l = kvq.clip %r order_statistic(0.92) per row : !turned
  %g = kvq.group %l along channel size 64 : !turned
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!turned, 64>
  kvq.pack %q native : !kvq.codes<!turned, 64, 2, min_form, f16>
}

kvq.cache @cache {key = @key, value = @value, q_heads = 9, kv_heads = 3, layers = 2, page = 64, sink = 20, recent = 100}

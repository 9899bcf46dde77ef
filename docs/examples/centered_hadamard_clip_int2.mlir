// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// As hadamard_clip_int2, with the calibrated mean of every key channel taken off first.
!rows = !kvq.rows<?x64xbf16>
!centered = !kvq.rows<?x64xf32, center = [@calib::@key_mean]>
!turned_key = !kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@key_mean]>
!turned = !kvq.rows<?x64xbf16, basis = [hadamard<64>]>

kvq.constants @calib {
  kvq.constant @key_mean source("k.mean") : tensor<2x3x64xf32>
}

kvq.pipeline @key {
  %x = kvq.rows : !rows
  %c = kvq.center %x by @calib::@key_mean as f32 : !rows
  %r = kvq.rotate %c by hadamard<64> as bf16 : !centered
  %l = kvq.clip %r order_statistic(0.96) per row : !turned_key
  %g = kvq.group %l along channel size 64 : !turned_key
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!turned_key, 64>
  kvq.pack %q native : !kvq.codes<!turned_key, 64, 2, min_form, f16>
}

kvq.pipeline @value {
  %x = kvq.rows : !rows
  %r = kvq.rotate %x by hadamard<64> : !rows
  %l = kvq.clip %r order_statistic(0.92) per row : !turned
  %g = kvq.group %l along channel size 64 : !turned
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!turned, 64>
  kvq.pack %q native : !kvq.codes<!turned, 64, 2, min_form, f16>
}

kvq.cache @cache {key = @key, value = @value, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-print-method=constants --split-input-file --verify-diagnostics -o %t

!rows = !kvq.rows<?x64xbf16>
kvq.pipeline @plain {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 64 : !rows
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!rows, 64>
  kvq.pack %q native : !kvq.codes<!rows, 64, 2, min_form, f16>
}
kvq.cache @cache {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @queries(%q: !rows) -> !rows {
  // expected-error @below {{expects q_len of 1 to 16, got 17}}
  %o = kvq.fused_attention %q, @cache scale(0.125) q_len(17) : !rows -> !rows
  return %o : !rows
}

// -----

!rows = !kvq.rows<?x64xbf16>
!c = !kvq.rows<?x64xbf16, center = [@calib::@m]>
kvq.constants @calib {
  // expected-error @below {{has no value; read a calibration file with kvq-import-calibration, or give a value}}
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
}
kvq.pipeline @centred {
  %x = kvq.rows : !rows
  %c = kvq.center %x by @calib::@m : !rows
  %g = kvq.group %c along channel size 64 : !c
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!c, 64>
  kvq.pack %q native : !kvq.codes<!c, 64, 2, min_form, f16>
}
kvq.cache @cache {key = @centred, value = @centred, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @decode(%q: !rows) -> !rows {
  %o = kvq.fused_attention %q, @cache scale(0.125) fix_lse add_value_mean : !rows -> !rows
  return %o : !rows
}

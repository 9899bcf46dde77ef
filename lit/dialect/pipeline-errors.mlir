// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expects kvq.pack as the last stage}}
kvq.pipeline @no_pack {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
}

// -----

kvq.pipeline @late_clip {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  // expected-note @below {{the stage before it is here}}
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  // expected-error @below {{stands too late: the order of stages is rows, center or rotate, clip, group, round, pack}}
  %l = kvq.clip %k order_statistic(0.96) per row : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}

// -----

kvq.pipeline @not_a_chain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  // expected-note @below {{the stage before it is here}}
  %r = kvq.rotate %k by hadamard<64> : !kvq.rows<?x64xbf16>
  // expected-error @below {{expects the result of the stage before it as operand}}
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}

// -----

kvq.pipeline @two_rows {
  // expected-note @below {{the stage before it is here}}
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  // expected-error @below {{stands too late}}
  %k2 = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}

// -----

kvq.pipeline @stranger {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  // expected-error @below {{is no stage of a pipeline; expects rows, center, rotate, clip, group, round or pack}}
  %s = builtin.unrealized_conversion_cast %k : !kvq.rows<?x64xbf16> to !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}

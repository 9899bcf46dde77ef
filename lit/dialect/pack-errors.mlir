// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

kvq.pipeline @five_bits {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = builtin.unrealized_conversion_cast %g : !kvq.grouped<!kvq.rows<?x64xbf16>, 64> to !kvq.codes<!kvq.rows<?x64xbf16>, 64, 5, min_form, f16>
  // expected-error @below {{expects codes of 2, 3, 4 or 8 bits for the native layout, got 5}}
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 5, min_form, f16>
}

// -----

func.func @outside(%q: !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>) {
  // expected-error @below {{expects parent op 'kvq.pipeline'}}
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
  return
}

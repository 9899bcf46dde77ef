// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

kvq.pipeline @rotated {
  // expected-error @below {{expects rows in the model's own basis, without center, got '!kvq.rows<?x64xbf16, basis = [hadamard<64>]>'}}
  %k = kvq.rows : !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16, basis = [hadamard<64>]>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16, basis = [hadamard<64>]>, 64, 2, min_form, f16>
}

// -----

// expected-error @below {{expects parent op 'kvq.pipeline'}}
%k = kvq.rows : !kvq.rows<?x64xbf16>

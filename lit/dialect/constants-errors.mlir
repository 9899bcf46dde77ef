// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

// expected-note @below {{the table is here}}
kvq.constants @calib {
  // expected-error @below {{does not belong in a kvq.constants; expects kvq.constant only}}
  func.func private @f()
}

// -----

kvq.constants @calib {
  // expected-note @below {{see existing symbol definition here}}
  kvq.constant @m source("k.mean") : tensor<1x1x64xf32>
  // expected-error @below {{redefinition of symbol named 'm'}}
  kvq.constant @m source("v.mean") : tensor<1x1x64xf32>
}

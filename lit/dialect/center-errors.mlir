// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

func.func @missing(%k: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects mean @calib::@m to name a kvq.constant, found none}}
  %c = kvq.center %k by @calib::@m : !kvq.rows<?x64xbf16>
  return
}

// -----

kvq.constants @calib {
  // expected-note @below {{the constant is here}}
  kvq.constant @m source("k.mean") : tensor<2x3x32xf32>
}
func.func @shape(%k: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects mean @calib::@m of shape [layers, kv_heads, 64], got 'tensor<2x3x32xf32>'}}
  %c = kvq.center %k by @calib::@m : !kvq.rows<?x64xbf16>
  return
}

// -----

kvq.constants @calib {
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
}
// expected-note @below {{the rows have type '!kvq.rows<?x64xbf16>' here}}
func.func @element(%k: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{'kvq.center' op expects rows of bf16, f16 or f32, got 'i32'}}
  %c = kvq.center %k by @calib::@m as i32 : !kvq.rows<?x64xbf16>
  return
}

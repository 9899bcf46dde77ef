// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

// expected-note @below {{the rows have type '!kvq.rows<?x192xbf16>' here}}
func.func @order(%k: !kvq.rows<?x192xbf16>) {
  // expected-error @below {{expects hadamard<n> with n a power of two equal to the head dim 192, got hadamard<192>; use block_hadamard<64>}}
  %r = kvq.rotate %k by hadamard<192> : !kvq.rows<?x192xbf16>
  return
}

// -----

// expected-note @below {{the rows have type '!kvq.rows<?x64xbf16>' here}}
func.func @block(%k: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects block_hadamard<m> with m a power of two dividing the head dim 64, got block_hadamard<48>}}
  %r = kvq.rotate %k by block_hadamard<48> : !kvq.rows<?x64xbf16>
  return
}

// -----

func.func @missing(%k: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects rotation @calib::@u to name a kvq.constant, found none}}
  %r = kvq.rotate %k by dense<@calib::@u> : !kvq.rows<?x64xbf16>
  return
}

// -----

kvq.constants @calib {
  // expected-note @below {{the constant is here}}
  kvq.constant @u source("k.mean") : tensor<2x3x64xf32>
}
func.func @shape(%k: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects rotation @calib::@u of shape [layers, kv_heads, 64, 64], got 'tensor<2x3x64xf32>'}}
  %r = kvq.rotate %k by dense<@calib::@u> : !kvq.rows<?x64xbf16>
  return
}

// -----

func.func @factor(%k: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expected hadamard, block_hadamard or dense, got 'givens'}}
  %r = kvq.rotate %k by givens<3> : !kvq.rows<?x64xbf16>
  return
}

// -----

// expected-note @below {{the rows have type '!kvq.rows<?x64xbf16>' here}}
func.func @element(%k: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{'kvq.rotate' op expects rows of bf16, f16 or f32, got 'f64'}}
  %r = kvq.rotate %k by hadamard<64> as f64 : !kvq.rows<?x64xbf16>
  return
}

// -----

// Factors that do not fit are refused even where they cancel.
// expected-note @below {{the rows have type '!kvq.rows<?x64xbf16>' here}}
func.func @cancels(%k: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects hadamard<n> with n a power of two equal to the head dim 64, got hadamard<32>}}
  %r = kvq.rotate %k by [hadamard<32>, hadamard<32>] : !kvq.rows<?x64xbf16>
  return
}

// -----

// expected-note @below {{the rows have type '!kvq.rows<?x64xbf16>' here}}
func.func @no_factor(%k: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects factors hadamard, block_hadamard or dense, got 1 : i32}}
  // expected-error @below {{failed to infer returned types}}
  %r = "kvq.rotate"(%k) <{factors = [1 : i32]}> : (!kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16>
  return
}

// -----

func.func @result(%k: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{inferred type(s) '!kvq.rows<?x64xbf16, basis = [hadamard<64>]>' are incompatible with return type(s) of operation '!kvq.rows<?x64xbf16>'}}
  // expected-error @below {{failed to infer returned types}}
  %r = "kvq.rotate"(%k) <{factors = [#kvq.hadamard<64>]}> : (!kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16>
  return
}

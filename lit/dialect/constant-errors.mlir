// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

kvq.constants @calib {
  // expected-error @below {{expects a source or a value, got neither}}
  kvq.constant @m : tensor<1x1x64xf32>
}

// -----

kvq.constants @calib {
  // expected-error @below {{expects a tensor of f32 [layers, kv_heads, D] or [layers, kv_heads, D, D], got 'tensor<64xf32>'}}
  kvq.constant @m source("k.mean") : tensor<64xf32>
}

// -----

kvq.constants @calib {
  // expected-error @below {{expects a tensor of f32 [layers, kv_heads, D] or [layers, kv_heads, D, D], got 'tensor<1x1x64xf16>'}}
  kvq.constant @m source("k.mean") : tensor<1x1x64xf16>
}

// -----

kvq.constants @calib {
  // expected-error @below {{expects a value of type 'tensor<1x1x64xf32>', got 'tensor<1x1x32xf32>'}}
  kvq.constant @m : tensor<1x1x64xf32> = dense<0.0> : tensor<1x1x32xf32>
}

// -----

kvq.constants @calib {
  // expected-error @below {{expects finite values, got a NaN or an infinity}}
  kvq.constant @m : tensor<1x1x2xf32> = dense<[[[0.0, 0x7FC00000]]]> : tensor<1x1x2xf32>
}

// -----

// expected-error @below {{expects parent op 'kvq.constants'}}
kvq.constant @m source("k.mean") : tensor<1x1x64xf32>

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

// -----

kvq.constants @calib {
  // expected-error @below {{expects a tensor of f32 [layers, kv_heads, D] or [layers, kv_heads, D, D], got 'tensor<1x1x64x32xf32>'}}
  kvq.constant @r source("k.rotation") : tensor<1x1x64x32xf32>
}

// -----

kvq.constants @calib {
  // expected-error @below {{expects a tensor of f32 [layers, kv_heads, D] or [layers, kv_heads, D, D], got 'tensor<0x1x64xf32>'}}
  kvq.constant @m source("k.mean") : tensor<0x1x64xf32>
}

// -----

kvq.constants @calib {
  // expected-error @below {{expects 8 bytes in resource 'short', got 4}}
  kvq.constant @m : tensor<1x1x2xf32> = dense_resource<short> : tensor<1x1x2xf32>
}
{-#
  dialect_resources: { builtin: { short: "0x040000000000803F" } }
#-}

// -----

kvq.constants @calib {
  // expected-error @below {{expects 8 bytes in resource 'nowhere', got 0}}
  kvq.constant @m : tensor<1x1x2xf32> = dense_resource<nowhere> : tensor<1x1x2xf32>
}

// -----

kvq.constants @calib {
  // expected-error @below {{expects finite values, got a NaN or an infinity}}
  kvq.constant @m : tensor<1x1x1xf32> = dense_resource<infinite> : tensor<1x1x1xf32>
}
{-#
  dialect_resources: { builtin: { infinite: "0x040000000000807F" } }
#-}

// -----

kvq.constants @calib {
  // expected-error @below {{expects a value given as dense or dense_resource elements, got sparse<}}
  kvq.constant @m : tensor<1x1x2xf32> = sparse<[[0, 0, 1]], [1.0]> : tensor<1x1x2xf32>
}

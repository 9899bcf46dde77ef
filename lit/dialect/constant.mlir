// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

kvq.constants @calib {
  // CHECK: kvq.constant @declared source("k.mean") : tensor<2x3x64xf32>
  kvq.constant @declared source("k.mean") : tensor<2x3x64xf32>
  // CHECK: kvq.constant @given : tensor<1x1x32xf32> = dense<5.000000e-01> : tensor<1x1x32xf32>
  kvq.constant @given : tensor<1x1x32xf32> = dense<0.5> : tensor<1x1x32xf32>
  // CHECK: kvq.constant @both source("k.rotation") : tensor<1x1x1x1xf32> = dense<1.000000e+00> : tensor<1x1x1x1xf32>
  kvq.constant @both source("k.rotation") : tensor<1x1x1x1xf32> = dense<1.0> : tensor<1x1x1x1xf32>
  // CHECK: kvq.constant @resource : tensor<1x1x2xf32> = dense_resource<pair> : tensor<1x1x2xf32>
  kvq.constant @resource : tensor<1x1x2xf32> = dense_resource<pair> : tensor<1x1x2xf32>
}
// CHECK: pair: "0x040000000000803F00000040"
{-#
  dialect_resources: { builtin: { pair: "0x040000000000803F00000040" } }
#-}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

kvq.constants @calib {
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
}

// CHECK-LABEL: func.func @stages
func.func @stages(%k: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m, @calib::@m in [hadamard<64>]]> {
  // CHECK: %[[C:.*]] = kvq.center %{{.*}} by @calib::@m as f32 : !kvq.rows<?x64xbf16>
  %c = kvq.center %k by @calib::@m as f32 : !kvq.rows<?x64xbf16>
  // CHECK: kvq.rotate %[[C]] by [hadamard<64>] as bf16 : !kvq.rows<?x64xf32, center = [@calib::@m]>
  %r = kvq.rotate %c by hadamard<64> as bf16 : !kvq.rows<?x64xf32, center = [@calib::@m]>
  // The entry keeps the basis in which the mean was taken.
  // CHECK: kvq.center %{{.*}} by @calib::@m : !kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m]>
  %d = kvq.center %r by @calib::@m : !kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m]>
  return %d : !kvq.rows<?x64xbf16, basis = [hadamard<64>], center = [@calib::@m, @calib::@m in [hadamard<64>]]>
}

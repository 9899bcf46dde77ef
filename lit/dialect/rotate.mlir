// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s
// RUN: kvq-opt %s --canonicalize | FileCheck %s --check-prefix=FOLD

kvq.constants @calib {
  kvq.constant @u source("k.rotation") : tensor<2x3x64x64xf32>
}

// CHECK-LABEL: func.func @factors
func.func @factors(%k: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  // CHECK: kvq.rotate %{{.*}} by [dense<@calib::@u>, hadamard<64>] as f32 : !kvq.rows<?x64xbf16>
  %p = kvq.rotate %k by [dense<@calib::@u>, hadamard<64>] as f32 : !kvq.rows<?x64xbf16>
  // CHECK: kvq.rotate %{{.*}} by [hadamard<64>, dense<@calib::@u inverse>] as bf16
  %b = kvq.rotate %p by [hadamard<64>, dense<@calib::@u inverse>] as bf16
    : !kvq.rows<?x64xf32, basis = [dense<@calib::@u>, hadamard<64>]>
  // The way back leads to the model's own basis: the result type says so.
  // CHECK: return %{{.*}} : !kvq.rows<?x64xbf16>
  return %b : !kvq.rows<?x64xbf16>
}

// A second rotation comes after the first in the basis.
// CHECK-LABEL: func.func @twice
// CHECK-SAME:    -> !kvq.rows<?x64xbf16, basis = [dense<@calib::@u>, hadamard<64>]>
func.func @twice(%k: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16, basis = [dense<@calib::@u>, hadamard<64>]> {
  %p = kvq.rotate %k by dense<@calib::@u> : !kvq.rows<?x64xbf16>
  // CHECK: kvq.rotate %{{.*}} by [hadamard<64>] : !kvq.rows<?x64xbf16, basis = [dense<@calib::@u>]>
  %r = kvq.rotate %p by hadamard<64> : !kvq.rows<?x64xbf16, basis = [dense<@calib::@u>]>
  return %r : !kvq.rows<?x64xbf16, basis = [dense<@calib::@u>, hadamard<64>]>
}

// FOLD-LABEL: func.func @empty
// FOLD-NEXT:    return %arg0
func.func @empty(%k: !kvq.rows<?x96xbf16>) -> !kvq.rows<?x96xbf16> {
  %r = kvq.rotate %k by [] : !kvq.rows<?x96xbf16>
  return %r : !kvq.rows<?x96xbf16>
}

// Rounding to another element type is no identity.
// FOLD-LABEL: func.func @rounds
// FOLD-NEXT:    kvq.rotate
func.func @rounds(%k: !kvq.rows<?x96xf32>) -> !kvq.rows<?x96xbf16> {
  %r = kvq.rotate %k by [] as bf16 : !kvq.rows<?x96xf32>
  return %r : !kvq.rows<?x96xbf16>
}

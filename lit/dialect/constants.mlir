// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

// CHECK-LABEL: kvq.constants @empty {
// CHECK-NEXT:  }
kvq.constants @empty {
}

// CHECK-LABEL: kvq.constants @calib {
// CHECK-NEXT:    kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
kvq.constants @calib {
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

// CHECK-LABEL: func.func @kinds
func.func @kinds(%x: !kvq.rows<?x64xbf16>) {
  // CHECK: kvq.clip %{{.*}} order_statistic(0.95999999999999996) per row : !kvq.rows<?x64xbf16>
  %a = kvq.clip %x order_statistic(0.96) per row : !kvq.rows<?x64xbf16>
  // CHECK: kvq.clip %{{.*}} ratio(8.000000e-01) per group
  %b = kvq.clip %x ratio(0.8) per group : !kvq.rows<?x64xbf16>
  // CHECK: kvq.clip %{{.*}} constant(2.500000e+00) per row
  %c = kvq.clip %x constant(2.5) per row : !kvq.rows<?x64xbf16>
  return
}

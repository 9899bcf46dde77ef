// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

// CHECK-LABEL: func.func @sizes
func.func @sizes(%x: !kvq.rows<?x96xbf16>) -> !kvq.grouped<!kvq.rows<?x96xbf16>, 32> {
  // CHECK: kvq.group %{{.*}} along channel size 96 : !kvq.rows<?x96xbf16>
  %a = kvq.group %x along channel size 96 : !kvq.rows<?x96xbf16>
  // CHECK: kvq.group %{{.*}} along channel size 32 : !kvq.rows<?x96xbf16>
  %b = kvq.group %x along channel size 32 : !kvq.rows<?x96xbf16>
  return %b : !kvq.grouped<!kvq.rows<?x96xbf16>, 32>
}

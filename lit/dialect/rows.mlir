// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

kvq.pipeline @static {
  // CHECK: kvq.rows : !kvq.rows<16x64xf32>
  %k = kvq.rows : !kvq.rows<16x64xf32>
  %g = kvq.group %k along channel size 64 : !kvq.rows<16x64xf32>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<16x64xf32>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<16x64xf32>, 64, 2, min_form, f16>
}

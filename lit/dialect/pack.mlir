// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

kvq.pipeline @key {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  // CHECK: kvq.pack %{{.*}} native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

// CHECK-LABEL: kvq.pipeline @shortest {
// CHECK-NEXT:    %[[K:.*]] = kvq.rows : !kvq.rows<?x64xbf16>
// CHECK-NEXT:    %[[G:.*]] = kvq.group %[[K]] along channel size 64
// CHECK-NEXT:    %[[Q:.*]] = kvq.round %[[G]] to i2 half_up min_form params f16 stored
// CHECK-NEXT:    kvq.pack %[[Q]] native
// CHECK-NEXT:  }
kvq.pipeline @shortest {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}

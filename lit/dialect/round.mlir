// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

!g = !kvq.grouped<!kvq.rows<?x64xbf16>, 64>

// CHECK-LABEL: func.func @forms
func.func @forms(%g: !g) -> !kvq.codes<!kvq.rows<?x64xbf16>, 64, 8, sym_form, bf16> {
  // CHECK: kvq.round %{{.*}} to i2 half_up min_form params f16 stored
  %a = kvq.round %g to i2 half_up min_form params f16 stored : !g
  // CHECK: kvq.round %{{.*}} to i3 half_even min_form params f16 stored
  %b = kvq.round %g to i3 half_even min_form params f16 stored : !g
  // CHECK: kvq.round %{{.*}} to i4 half_up zero_form params f32 exact
  %c = kvq.round %g to i4 half_up zero_form params f32 exact : !g
  // CHECK: kvq.round %{{.*}} to i8 half_even sym_form params bf16 stored
  %d = kvq.round %g to i8 half_even sym_form params bf16 stored : !g
  return %d : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 8, sym_form, bf16>
}

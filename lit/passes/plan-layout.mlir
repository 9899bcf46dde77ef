// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-plan-layout | FileCheck %s
// RUN: kvq-opt %s --kvq-plan-layout=page=16 | FileCheck %s --check-prefix=SMALL
// RUN: kvq-opt %s --kvq-plan-layout --remarks-filter='kvq.*' --remark-format=emitRemark -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

!rows = !kvq.rows<?x64xbf16>
kvq.pipeline @min {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 64 : !rows
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!rows, 64>
  kvq.pack %q native : !kvq.codes<!rows, 64, 2, min_form, f16>
}
kvq.pipeline @sym {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 64 : !rows
  %q = kvq.round %g to i4 half_up sym_form params f16 stored : !kvq.grouped<!rows, 64>
  kvq.pack %q native : !kvq.codes<!rows, 64, 4, sym_form, f16>
}

// CHECK: kvq.cache @cache
// CHECK-SAME: page = 64}
// CHECK-SAME: record <bytes = 2560, stride = 2560, bits_per_element = 2.500000e+00 : f64>
// REMARK: [[@LINE+1]]:1: remark: [Analysis] record | Category:kvq-plan-layout | Remark="a page of 64 tokens takes 2560 bytes per KV head, stride 2560, 2.500 bits per element"
kvq.cache @cache {key = @min, value = @min, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// Keys and values may differ; the plan for an older page is replaced.
// CHECK: kvq.cache @mixed
// CHECK-SAME: record <bytes = 3456, stride = 3456, bits_per_element = 3.375000e+00 : f64>
// SMALL: kvq.cache @mixed
// SMALL-SAME: page = 16}
// SMALL-SAME: record <bytes = 864, stride = 896, bits_per_element = 3.500000e+00 : f64>
kvq.cache @mixed {key = @min, value = @sym, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
  record <bytes = 3456, stride = 3456, bits_per_element = 3.375 : f64>

// Padding counts: 64 tokens fill the stride, 16 do not.
// CHECK: kvq.cache @padded
// CHECK-SAME: record <bytes = 4352, stride = 4352, bits_per_element = 4.250000e+00 : f64>
// SMALL: kvq.cache @padded
// SMALL-SAME: page = 16}
// SMALL-SAME: record <bytes = 1088, stride = 1152, bits_per_element = 4.500000e+00 : f64>
kvq.cache @padded {key = @sym, value = @sym, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

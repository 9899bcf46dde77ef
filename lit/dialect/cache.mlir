// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

kvq.pipeline @plain {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}

// CHECK: kvq.cache @short {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
kvq.cache @short {key = @plain, value = @plain, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

// CHECK: kvq.cache @windows {key = @plain, value = @plain, q_heads = 3, kv_heads = 3, layers = 1, page = 16, sink = 64, recent = 256}
kvq.cache @windows {key = @plain, value = @plain, q_heads = 3, kv_heads = 3, layers = 1, page = 16, sink = 64, recent = 256}

// CHECK: kvq.cache @planned {{.*}} record <bytes = 2560, stride = 2560, bits_per_element = 2.500000e+00 : f64>
kvq.cache @planned {key = @plain, value = @plain, q_heads = 3, kv_heads = 3, layers = 1, page = 64} record <bytes = 2560, stride = 2560, bits_per_element = 2.5 : f64>

// CHECK: kvq.cache @recent_only {{.*}}page = 64, recent = 256}
kvq.cache @recent_only {key = @plain, value = @plain, q_heads = 3, kv_heads = 3, layers = 1, page = 64, recent = 256}

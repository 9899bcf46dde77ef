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

// Layers of the model, in the order of the constants.
// CHECK: kvq.cache @at {{.*}}layers = 3, page = 64, at = [5, 0, 3]}
kvq.cache @at {key = @plain, value = @plain, q_heads = 3, kv_heads = 3, layers = 3, page = 64, at = [5, 0, 3]}
// CHECK: kvq.cache @everything {{.*}}page = 64, sink = 64, recent = 256, at = [7]}
kvq.cache @everything {key = @plain, value = @plain, q_heads = 3, kv_heads = 3, layers = 1, page = 64, sink = 64, recent = 256, at = [7]}

// A constant may have layers and KV heads of the cache, or one for all.
!each = !kvq.rows<?x64xbf16, center = [@calib::@each]>
!one = !kvq.rows<?x64xbf16, center = [@calib::@one]>
kvq.constants @calib {
  kvq.constant @each source("k.mean") : tensor<2x3x64xf32>
  kvq.constant @one source("v.mean") : tensor<1x1x64xf32>
}
kvq.pipeline @centred_each {
  %k = kvq.rows : !kvq.rows<?x64xbf16>
  %c = kvq.center %k by @calib::@each : !kvq.rows<?x64xbf16>
  %g = kvq.group %c along channel size 64 : !each
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!each, 64>
  kvq.pack %q native : !kvq.codes<!each, 64, 2, min_form, f16>
}
kvq.pipeline @centred_one {
  %v = kvq.rows : !kvq.rows<?x64xbf16>
  %c = kvq.center %v by @calib::@one : !kvq.rows<?x64xbf16>
  %g = kvq.group %c along channel size 64 : !one
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!one, 64>
  kvq.pack %q native : !kvq.codes<!one, 64, 2, min_form, f16>
}
// CHECK: kvq.cache @means {key = @centred_each, value = @centred_one,
kvq.cache @means {key = @centred_each, value = @centred_one, q_heads = 9, kv_heads = 3, layers = 2, page = 64}

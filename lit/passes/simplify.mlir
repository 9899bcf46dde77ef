// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-simplify --split-input-file | FileCheck %s
// RUN: kvq-opt %s --kvq-simplify --split-input-file --remarks-filter='kvq.*' --remark-format=emitRemark -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

!rows = !kvq.rows<?x64xbf16>
!h32 = !kvq.rows<?x64xf32, basis = [hadamard<64>]>
!r = !kvq.rows<?x64xbf16, basis = [hadamard<64>, dense<@calib::@r>]>
kvq.constants @calib {
  kvq.constant @r source("k.rotation") : tensor<2x3x64x64xf32>
}

// The example of the pass: rotations with f32 rows between them merge, and a clip at the largest value does nothing.
// CHECK-LABEL: kvq.pipeline @merge
// CHECK:         %[[X:.*]] = kvq.rows
// CHECK-NEXT:    %[[R:.*]] = kvq.rotate %[[X]] by [hadamard<64>, dense<@calib::@r>] : !kvq.rows<?x64xbf16>
// CHECK-NEXT:    kvq.group %[[R]] along channel size 64 : !kvq.rows<?x64xbf16, basis = [hadamard<64>, dense<@calib::@r>]>
kvq.pipeline @merge {
  %x = kvq.rows : !rows
  %a = kvq.rotate %x by hadamard<64> as f32 : !rows
  %b = kvq.rotate %a by dense<@calib::@r> as bf16 : !h32
  %c = kvq.clip %b order_statistic(1.0) per row : !r
  %g = kvq.group %c along channel size 64 : !r
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!r, 64>
  kvq.pack %q native : !kvq.codes<!r, 64, 2, min_form, f16>
}

// -----

!rows = !kvq.rows<?x64xbf16>
!h = !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
!hb = !kvq.rows<?x64xbf16, basis = [hadamard<64>, block_hadamard<32>]>

// Does not fire: the rows between the rotations are rounded to bf16.
// CHECK-LABEL: kvq.pipeline @rounded_between
// CHECK:         kvq.rotate %{{.*}} by [hadamard<64>] : !kvq.rows<?x64xbf16>
// CHECK-NEXT:    kvq.rotate %{{.*}} by [block_hadamard<32>] :
// CHECK-NEXT:    kvq.clip %{{.*}} order_statistic(5.000000e-01)
kvq.pipeline @rounded_between {
  %x = kvq.rows : !rows
  %a = kvq.rotate %x by hadamard<64> : !rows
  // REMARK: [[@LINE+1]]:8: remark: [Missed] rotate | Category:kvq-simplify | {{.*}}not merged with the rotation before it, which rounds to bf16; 'as f32' there would allow it
  %b = kvq.rotate %a by block_hadamard<32> : !h
  %l = kvq.clip %b order_statistic(0.5) per row : !hb
  %g = kvq.group %l along channel size 64 : !hb
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!hb, 64>
  kvq.pack %q native : !kvq.codes<!hb, 64, 2, min_form, f16>
}

// -----

!rows = !kvq.rows<?x64xbf16>
!h32 = !kvq.rows<?x64xf32, basis = [hadamard<64>]>

// A rotation that meets its inverse leaves nothing, and a ratio of 1 clips nothing.
// CHECK-LABEL: kvq.pipeline @cancel
// CHECK:         %[[X:.*]] = kvq.rows
// CHECK-NEXT:    kvq.group %[[X]] along channel size 64 : !kvq.rows<?x64xbf16>
// CHECK-NEXT:    kvq.round %{{.*}} : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
// CHECK-NEXT:    kvq.pack %{{.*}} native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
kvq.pipeline @cancel {
  %x = kvq.rows : !rows
  %a = kvq.rotate %x by hadamard<64> as f32 : !rows
  %b = kvq.rotate %a by hadamard<64> as bf16 : !h32
  %l = kvq.clip %b ratio(1.0) per group : !rows
  %g = kvq.group %l along channel size 64 : !rows
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!rows, 64>
  kvq.pack %q native : !kvq.codes<!rows, 64, 2, min_form, f16>
}

// -----

!rows = !kvq.rows<?x64xbf16>
!c32 = !kvq.rows<?x64xf32, center = [@calib::@m]>
!c = !kvq.rows<?x64xbf16, center = [@calib::@m]>
kvq.constants @calib {
  kvq.constant @m source("k.mean") : tensor<2x3x64xf32>
  kvq.constant @one : tensor<1x1x64x64xf32> = dense<0.125> : tensor<1x1x64x64xf32>
}

// What is left of the rotation is its rounding, which the center before it can do.
// CHECK-LABEL: kvq.pipeline @round_earlier
// CHECK:         %[[C:.*]] = kvq.center %{{.*}} by @calib::@m : !kvq.rows<?x64xbf16>
// CHECK-NEXT:    kvq.group %[[C]] along channel size 64 : !kvq.rows<?x64xbf16, center = [@calib::@m]>
kvq.pipeline @round_earlier {
  %x = kvq.rows : !rows
  %c = kvq.center %x by @calib::@m as f32 : !rows
  %r = kvq.rotate %c by [hadamard<64>, hadamard<64>] as bf16 : !c32
  %g = kvq.group %r along channel size 64 : !c
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!c, 64>
  kvq.pack %q native : !kvq.codes<!c, 64, 2, min_form, f16>
}

// -----

!rows = !kvq.rows<?x32xf32>
!z = !kvq.rows<?x32xf32, center = [@t::@zero]>
!zz = !kvq.rows<?x32xf32, center = [@t::@zero, @t::@mean]>
!zzz = !kvq.rows<?x32xf32, center = [@t::@zero, @t::@mean, @t::@mean]>
kvq.constants @t {
  kvq.constant @zero : tensor<1x1x32xf32> = dense<0.0> : tensor<1x1x32xf32>
  kvq.constant @mean : tensor<1x1x32xf32> = dense<0.5> : tensor<1x1x32xf32>
}

// A mean of zero disappears; two means stay two, their sum would round differently.
// CHECK-LABEL: kvq.pipeline @means
// CHECK:         %[[X:.*]] = kvq.rows
// CHECK-NEXT:    %[[A:.*]] = kvq.center %[[X]] by @t::@mean : !kvq.rows<?x32xf32>
// CHECK-NEXT:    %[[B:.*]] = kvq.center %[[A]] by @t::@mean : !kvq.rows<?x32xf32, center = [@t::@mean]>
// CHECK-NEXT:    kvq.group %[[B]] along channel size 32 : !kvq.rows<?x32xf32, center = [@t::@mean, @t::@mean]>
kvq.pipeline @means {
  %x = kvq.rows : !rows
  %z = kvq.center %x by @t::@zero : !rows
  %a = kvq.center %z by @t::@mean : !z
  %b = kvq.center %a by @t::@mean : !zz
  %g = kvq.group %b along channel size 32 : !zzz
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!zzz, 32>
  kvq.pack %q native : !kvq.codes<!zzz, 32, 2, min_form, f16>
}

// -----

!rows = !kvq.rows<?x32xbf16>
!z = !kvq.rows<?x32xf32, center = [@t::@zero]>
kvq.constants @t {
  kvq.constant @zero : tensor<1x1x32xf32> = dense<0.0> : tensor<1x1x32xf32>
}

// Does not fire: the center makes f32 rows, and a threshold of 1 is no ratio of 1.
// CHECK-LABEL: kvq.pipeline @kept
// CHECK:         kvq.center %{{.*}} by @t::@zero as f32
// CHECK-NEXT:    kvq.clip %{{.*}} constant(1.000000e+00) per row
kvq.pipeline @kept {
  %x = kvq.rows : !rows
  %z = kvq.center %x by @t::@zero as f32 : !rows
  %l = kvq.clip %z constant(1.0) per row : !z
  %g = kvq.group %l along channel size 32 : !z
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!z, 32>
  kvq.pack %q native : !kvq.codes<!z, 32, 2, min_form, f16>
}

// -----

!rows = !kvq.rows<?x64xbf16>
!h = !kvq.rows<?x64xbf16, basis = [hadamard<64>]>

// Does not fire: a fused attention reads the pipeline and has proved its bases.
// CHECK-LABEL: kvq.pipeline @placed
// CHECK:         kvq.clip %{{.*}} order_statistic(1.000000e+00)
kvq.pipeline @placed {
  %x = kvq.rows : !rows
  %a = kvq.rotate %x by hadamard<64> : !rows
  %l = kvq.clip %a order_statistic(1.0) per row : !h
  %g = kvq.group %l along channel size 64 : !h
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!h, 64>
  kvq.pack %q native : !kvq.codes<!h, 64, 2, min_form, f16>
}
kvq.cache @cache {key = @placed, value = @placed, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
func.func @decode(%q: !h) -> !h {
  %o = kvq.fused_attention %q, @cache scale(0.125) causal : !h -> !h
  return %o : !h
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A cache that says at which layers it serves takes the tensors of these layers, in its order.
// RUN: python3 %S/Inputs/make_calibration.py %t.safetensors
// RUN: kvq-opt %s --kvq-import-calibration=file=%t.safetensors | FileCheck %s
// RUN: sed 's/at = .11, 2./at = [11, 3]/' %s > %t.missing.mlir
// RUN: not kvq-opt %t.missing.mlir --kvq-import-calibration=file=%t.safetensors 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: sed 's/at = .10, 2./at = [2, 10]/; s/@value_mean :/@key_mean :/; s/@calib::@value_mean/@calib::@key_mean/' %s > %t.two.mlir
// RUN: not kvq-opt %t.two.mlir --kvq-import-calibration=file=%t.safetensors 2>&1 | FileCheck %s --check-prefix=TWO

// MISSING: error: 'kvq.constant' op expects tensor 'layers.3.k.mean' in calibration '{{.*}}.safetensors', found none
// TWO: error: 'kvq.constant' op expects one list of layers in the caches that use it, got two
// TWO: note: at = array<i64: 11, 2> here
// TWO: note: at = array<i64: 2, 10> here

!rows = !kvq.rows<?x32xbf16>
!key = !kvq.rows<?x32xbf16, center = [@calib::@key_mean]>
!value = !kvq.rows<?x32xbf16, center = [@calib::@value_mean]>

// CHECK: kvq.constant @key_mean source("k.mean") : tensor<2x3x32xf32> = dense_resource<calib.key_mean>
// CHECK: kvq.constant @value_mean source("k.mean") : tensor<2x3x32xf32> = dense_resource<calib.value_mean>
kvq.constants @calib {
  kvq.constant @key_mean source("k.mean") : tensor<2x3x32xf32>
  kvq.constant @value_mean source("k.mean") : tensor<2x3x32xf32>
}
// CHECK: kvq.constant @sinks source("sinks") : tensor<2x3x1xf32> = dense_resource<model.sinks>
kvq.constants @model {
  kvq.constant @sinks source("sinks") : tensor<2x3x1xf32>
}
kvq.pipeline @key {
  %x = kvq.rows : !rows
  %c = kvq.center %x by @calib::@key_mean : !rows
  %g = kvq.group %c along channel size 32 : !key
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!key, 32>
  kvq.pack %q native : !kvq.codes<!key, 32, 2, min_form, f16>
}
kvq.pipeline @value {
  %x = kvq.rows : !rows
  %c = kvq.center %x by @calib::@value_mean : !rows
  %g = kvq.group %c along channel size 32 : !value
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!value, 32>
  kvq.pack %q native : !kvq.codes<!value, 32, 2, min_form, f16>
}
kvq.cache @first {key = @key, value = @key, q_heads = 3, kv_heads = 3, layers = 2, page = 64, at = [11, 2]}
kvq.cache @second {key = @value, value = @value, q_heads = 3, kv_heads = 3, layers = 2, page = 64, at = [10, 2]}

// An attention over a cache uses its learned sinks.
func.func @decode(%q: !rows) -> !rows {
  %o = kvq.attention %q, @first scale(0.5) causal sinks(@model::@sinks) : !rows -> !rows
  return %o : !rows
}

// The mean of layer 11 is 2, 2 + 1/64 to 4 + 31/64; that of layer 10 begins with 1, 1 + 1/64, that of layer 2 with 0, 1/64.
// CHECK: calib.key_mean: "0x040000000000004000000140
// CHECK-SAME: 00808F40000000000000803C
// CHECK: calib.value_mean: "0x040000000000803F0000823F
// The sinks of layer 11 are 3, 3.25, 3.5; those of layer 2 are 1, 1.25, 1.5.
// CHECK: model.sinks: "0x0400000000004040000050400000604{{0+}}803F0000A03F0000C03F"

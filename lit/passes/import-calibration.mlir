// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: python3 %S/Inputs/make_calibration.py %t.safetensors
// RUN: kvq-opt %s --kvq-import-calibration=file=%t.safetensors | FileCheck %s
// RUN: kvq-opt %s --kvq-import-calibration=file=%t.safetensors | kvq-opt | FileCheck %s
// RUN: kvq-opt %s --kvq-import-calibration=file=%t.safetensors -o %t.once.mlir
// RUN: kvq-opt %s --kvq-import-calibration=file=%t.safetensors --kvq-import-calibration=file=%t.safetensors -o %t.twice.mlir
// RUN: diff %t.once.mlir %t.twice.mlir

// CHECK-LABEL: kvq.constants @calib
kvq.constants @calib {
  // CHECK: kvq.constant @key_mean source("k.mean") : tensor<3x3x32xf32> = dense_resource<calib.key_mean> : tensor<3x3x32xf32>
  kvq.constant @key_mean source("k.mean") : tensor<3x3x32xf32>
  // CHECK: kvq.constant @key_rotation source("k.rotation") : tensor<3x3x32x32xf32> = dense_resource<calib.key_rotation>
  kvq.constant @key_rotation source("k.rotation") : tensor<3x3x32x32xf32>
  // A value that is there stays, and so does a constant without a source.
  // CHECK: kvq.constant @given source("k.mean") : tensor<3x3x32xf32> = dense<1.500000e+00>
  kvq.constant @given source("k.mean") : tensor<3x3x32xf32> = dense<1.5> : tensor<3x3x32xf32>
  // CHECK: kvq.constant @inline : tensor<1x1x32xf32> = dense<2.500000e+00>
  kvq.constant @inline : tensor<1x1x32xf32> = dense<2.5> : tensor<1x1x32xf32>
}

// A table of the same entry names has blobs of its own.
// CHECK-LABEL: kvq.constants @other
kvq.constants @other {
  // CHECK: dense_resource<other.key_mean>
  kvq.constant @key_mean source("k.mean") : tensor<3x3x32xf32>
}

// Layers are stacked by number: 2, 10, 11. A mean holds the layer's place + head + channel / 64: 0, 1/64, ... first;
// after 2 + 31/64, the end of layer 2, the 1, 1 + 1/64 of layer 10; after 3 + 31/64 the 2, 2 + 1/64 of layer 11.
// CHECK: calib.key_mean: "0x04000000000000000000803C
// CHECK-SAME: 00001F400000803F0000823F
// CHECK-SAME: 00005F400000004000000140

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: not kvq-opt %s --kvq-import-calibration 2>&1 | FileCheck %s --check-prefix=NO-FILE
// RUN: not kvq-opt %s --kvq-import-calibration=file=%t.absent 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: python3 %S/Inputs/make_calibration.py %t.safetensors digest
// RUN: not kvq-opt %s --kvq-import-calibration=file=%t.safetensors 2>&1 | FileCheck %s --check-prefix=DIGEST
// RUN: python3 %S/Inputs/make_calibration.py %t.safetensors no-metadata
// RUN: not kvq-opt %s --kvq-import-calibration=file=%t.safetensors 2>&1 | FileCheck %s --check-prefix=NO-METADATA
// RUN: python3 %S/Inputs/make_calibration.py %t.safetensors no-json
// RUN: not kvq-opt %s --kvq-import-calibration=file=%t.safetensors 2>&1 | FileCheck %s --check-prefix=NO-JSON
// RUN: python3 %S/Inputs/make_calibration.py %t.safetensors no-digest
// RUN: not kvq-opt %s --kvq-import-calibration=file=%t.safetensors 2>&1 | FileCheck %s --check-prefix=NO-DIGEST
// RUN: python3 %S/Inputs/make_calibration.py %t.safetensors nan
// RUN: not kvq-opt %s --kvq-import-calibration=file=%t.safetensors 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: python3 %S/Inputs/make_calibration.py %t.safetensors shape
// RUN: not kvq-opt %s --kvq-import-calibration=file=%t.safetensors 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: python3 %S/Inputs/make_calibration.py %t.safetensors dtype
// RUN: not kvq-opt %s --kvq-import-calibration=file=%t.safetensors 2>&1 | FileCheck %s --check-prefix=DTYPE
// RUN: python3 %S/Inputs/make_calibration.py %t.safetensors layers
// RUN: not kvq-opt %s --kvq-import-calibration=file=%t.safetensors 2>&1 | FileCheck %s --check-prefix=LAYERS
// RUN: python3 %S/Inputs/make_calibration.py %t.safetensors skew
// RUN: not kvq-opt %s --kvq-import-calibration=file=%t.safetensors 2>&1 | FileCheck %s --check-prefix=SKEW
// RUN: python3 %S/Inputs/make_calibration.py %t.safetensors
// RUN: not kvq-opt %s --kvq-import-calibration=file=%t.safetensors 2>&1 | FileCheck %s --check-prefix=MISSING

// NO-FILE: error: kvq-import-calibration expects the option file, a calibration file
// ABSENT: error: cannot read calibration '{{.*}}.absent': {{.*}}No such file
// DIGEST: error: cannot read calibration '{{.*}}': the digest of its tensors is {{[0-9a-f]+}}, expected {{[0-9a-f]+}} by its metadata
// NO-METADATA: error: cannot read calibration '{{.*}}': expected the metadata key kvq_calibration, found none
// NO-JSON: error: cannot read calibration '{{.*}}': metadata kvq_calibration is no JSON
// NO-DIGEST: error: cannot read calibration '{{.*}}': metadata kvq_calibration has no string sha256, the digest of the tensors
// NAN: [[@LINE+8]]:3: error: 'kvq.constant' op cannot take tensor 'layers.10.k.mean' of calibration '{{.*}}': expected finite values, got {{-?}}nan at [1, 5]
// SHAPE: [[@LINE+7]]:3: error: 'kvq.constant' op cannot take tensor 'layers.2.k.mean' of calibration '{{.*}}': expected F32 [3, 32], got F32 [32, 3]
// DTYPE: [[@LINE+6]]:3: error: 'kvq.constant' op cannot take tensor 'layers.2.k.mean' of calibration '{{.*}}': expected F32 [3, 32], got F64 [3, 32]
// LAYERS: [[@LINE+5]]:3: error: 'kvq.constant' op expects 3 layers of 'k.mean', calibration '{{.*}}' has 2
// SKEW: [[@LINE+5]]:3: error: 'kvq.constant' op cannot take tensor 'layers.10.k.rotation' of calibration '{{.*}}': expected an orthogonal matrix, got entries of R R^T - I up to 2.500000e-01 (at most 0.001 allowed) for head 1
// MISSING: [[@LINE+5]]:3: error: 'kvq.constant' op expects tensors 'layers.{i}.v.rotation' in calibration '{{.*}}', found none

kvq.constants @calib {
  kvq.constant @key_mean source("k.mean") : tensor<3x3x32xf32>
  kvq.constant @key_rotation source("k.rotation") : tensor<3x3x32x32xf32>
  kvq.constant @value_rotation source("v.rotation") : tensor<3x3x32x32xf32>
}

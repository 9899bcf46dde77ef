// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --emit-bytecode -o %t.mlirbc
// RUN: kvq-opt %t.mlirbc | FileCheck %s

// The version entry of the dialect is 0.1: section 7, two bytes, two variable-length integers. A file of a newer minor
// version is read, one of another major version is refused.
// RUN: python3 %S/Inputs/set_version.py %t.mlirbc 0 9 %t.minor.mlirbc
// RUN: kvq-opt %t.minor.mlirbc | FileCheck %s
// RUN: python3 %S/Inputs/set_version.py %t.mlirbc 3 0 %t.major.mlirbc
// RUN: not kvq-opt %t.major.mlirbc 2>&1 | FileCheck %s --check-prefix=MAJOR

// MAJOR: error: expects kvq bytecode of version 0.1 or of the same major version, got version 3.0

// CHECK: func.func private @rows(!kvq.rows<?x64xbf16, basis = [hadamard<64>]>)
func.func private @rows(!kvq.rows<?x64xbf16, basis = [hadamard<64>]>)

// The version is looked at when the first op of the dialect is read; a type alone is stored as text.
// CHECK: kvq.constants @table {
kvq.constants @table {
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --verify-roundtrip | FileCheck %s

// The text may hold any list of factors; the type holds the normal form, in which neighbours cancel.

// CHECK-LABEL: func.func private @plain(!kvq.rows<?x64xbf16>, !kvq.rows<16x96xf16>, !kvq.rows<?x576xf32>)
func.func private @plain(!kvq.rows<?x64xbf16>, !kvq.rows<16x96xf16>, !kvq.rows<?x576xf32>)

// CHECK-LABEL: func.func private @cancels(!kvq.rows<?x64xbf16>)
func.func private @cancels(!kvq.rows<?x64xbf16, basis = [hadamard<64>, hadamard<64>]>)

// CHECK-LABEL: func.func private @inverse(!kvq.rows<?x64xbf16, basis = [block_hadamard<32>]>)
func.func private @inverse(!kvq.rows<?x64xbf16, basis = [dense<@t::@r>, dense<@t::@r inverse>, block_hadamard<32>]>)

// CHECK-LABEL: func.func private @center(!kvq.rows<?x64xf32, basis = [hadamard<64>], center = [@t::@m, @t::@n in [hadamard<64>]]>)
func.func private @center(!kvq.rows<?x64xf32, basis = hadamard<64>, center = [@t::@m in [], @t::@n in hadamard<64>]>)

// CHECK-LABEL: func.func private @grouped(!kvq.grouped<!kvq.rows<?x128xbf16>, 32>)
func.func private @grouped(!kvq.grouped<!kvq.rows<?x128xbf16>, 32>)

// CHECK-LABEL: func.func private @codes(!kvq.codes<!kvq.rows<?x128xbf16>, 64, 4, sym_form, bf16>)
func.func private @codes(!kvq.codes<!kvq.rows<?x128xbf16>, 64, 4, sym_form, bf16>)

// CHECK: record = #kvq.record<bytes = 2560, stride = 2560, bits_per_element = 2.500000e+00 : f64>
func.func private @attributes() attributes {
  record = #kvq.record<bytes = 2560, stride = 2560, bits_per_element = 2.5 : f64>,
  // CHECK-SAME: rotation = #kvq.dense<@t::@r inverse>
  rotation = #kvq.dense<@t::@r inverse>
}

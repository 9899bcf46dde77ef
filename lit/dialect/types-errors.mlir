// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expects a head dim of 1 to 576, got 640}}
func.func private @too_wide(!kvq.rows<?x640xbf16>)

// -----

// expected-error @below {{expects rows of bf16, f16 or f32, got 'f64'}}
func.func private @element(!kvq.rows<?x64xf64>)

// -----

// expected-error @below {{expects rows<TOKENSxDIMxELEMENT> with a static head dim}}
func.func private @dynamic_dim(!kvq.rows<16x?xbf16>)

// -----

// expected-error @below {{expects hadamard<n> with n a power of two equal to the head dim 96, got hadamard<96>; use block_hadamard<32>}}
func.func private @no_power_of_two(!kvq.rows<?x96xbf16, basis = [hadamard<96>]>)

// -----

// expected-error @below {{expects hadamard<n> with n a power of two equal to the head dim 64, got hadamard<32>}}
func.func private @other_order(!kvq.rows<?x64xbf16, basis = [hadamard<32>]>)

// -----

// expected-error @below {{expects block_hadamard<m> with m a power of two dividing the head dim 96, got block_hadamard<64>}}
func.func private @block_order(!kvq.rows<?x96xbf16, basis = [block_hadamard<64>]>)

// -----

// expected-error @below {{expected hadamard, block_hadamard or dense, got 'fourier'}}
func.func private @unknown_factor(!kvq.rows<?x64xbf16, basis = [fourier<64>]>)

// -----

// expected-error @below {{expected basis or center, got 'scale'}}
func.func private @unknown_tag(!kvq.rows<?x64xbf16, scale = []>)

// -----

// expected-error @below {{expects a group size that divides the head dim 128 and is a multiple of 32 or the head dim itself, got 48}}
func.func private @group(!kvq.grouped<!kvq.rows<?x128xbf16>, 48>)

// -----

// Factors must fit even where they cancel.
// expected-error @below {{expects hadamard<n> with n a power of two equal to the head dim 64, got hadamard<8>}}
func.func private @cancels(!kvq.rows<?x64xbf16, basis = [hadamard<8>, hadamard<8>]>)

// -----

// expected-error @below {{expects hadamard<n> with n a power of two equal to the head dim 64, got hadamard<32>}}
func.func private @center(!kvq.rows<?x64xbf16, center = [@t::@m in [hadamard<32>]]>)

// -----

// expected-error @below {{expects a group size that divides the head dim 64 and is a multiple of 32 or the head dim itself, got 0}}
func.func private @codes_group(!kvq.codes<!kvq.rows<?x64xbf16>, 0, 2, min_form, f16>)

// -----

// expected-error @below {{expects codes of 1 to 8 bits, got 9}}
func.func private @codes_bits(!kvq.codes<!kvq.rows<?x64xbf16>, 64, 9, min_form, f16>)

// -----

// expected-error @below {{expects parameters of f16, bf16 or f32, got 'f64'}}
func.func private @codes_params(!kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f64>)

// -----

// expected-error @below {{expects axes "constant" or a list of t, d, g and T, got "token"}}
func.func private @fold() attributes {fold = #kvq.fold<"k.scale", axes = "token", at = score, cost = "">}

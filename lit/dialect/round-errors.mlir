// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

func.func @bits(%g: !kvq.grouped<!kvq.rows<?x64xbf16>, 64>) {
  // expected-error @below {{expects 2, 3, 4 or 8 bits, got 5}}
  %a = kvq.round %g to i5 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  return
}

// -----

func.func @params(%g: !kvq.grouped<!kvq.rows<?x64xbf16>, 64>) {
  // expected-error @below {{expects parameters of f16, bf16 or f32, got 'f64'}}
  %a = kvq.round %g to i2 half_up min_form params f64 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  return
}

// -----

func.func @tie(%g: !kvq.grouped<!kvq.rows<?x64xbf16>, 64>) {
  // expected-error @below {{invalid value for property tie, expected half_up or half_even}}
  // expected-error @below {{expected one of [half_up, half_even] for half_up or half_even, got: half_down}}
  %a = kvq.round %g to i2 half_down min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  return
}

// -----

func.func @signed(%g: !kvq.grouped<!kvq.rows<?x64xbf16>, 64>) {
  // expected-error @below {{expects codes of i2, i3, i4 or i8, got 'si4'}}
  %a = kvq.round %g to si4 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  return
}

// -----

func.func @source(%g: !kvq.grouped<!kvq.rows<?x64xbf16>, 64>) {
  // expected-error @below {{invalid value for property source, expected stored or exact}}
  // expected-error @below {{expected one of [stored, exact] for stored or exact, got: rounded}}
  %a = kvq.round %g to i2 half_up min_form params f16 rounded : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  return
}

// -----

func.func @form(%g: !kvq.grouped<!kvq.rows<?x64xbf16>, 64>) {
  // expected-error @below {{invalid value for property form, expected min_form, zero_form or sym_form}}
  // expected-error @below {{expected one of [min_form, zero_form, sym_form] for min_form, zero_form or sym_form, got: log_form}}
  %a = kvq.round %g to i2 half_up log_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  return
}

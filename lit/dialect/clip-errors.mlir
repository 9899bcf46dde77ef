// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

func.func @zero(%x: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects a ratio in (0, 1], got 0}}
  %a = kvq.clip %x order_statistic(0.0) per row : !kvq.rows<?x64xbf16>
  return
}

// -----

func.func @above_one(%x: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects a ratio in (0, 1], got 1.5}}
  %a = kvq.clip %x ratio(1.5) per row : !kvq.rows<?x64xbf16>
  return
}

// -----

func.func @nan(%x: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects a ratio in (0, 1], got}}
  %a = kvq.clip %x ratio(0x7FF8000000000000) per row : !kvq.rows<?x64xbf16>
  return
}

// -----

func.func @negative(%x: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects a constant threshold that is positive and finite, got -1}}
  %a = kvq.clip %x constant(-1.0) per row : !kvq.rows<?x64xbf16>
  return
}

// -----

func.func @infinite(%x: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects a constant threshold that is positive and finite, got INF}}
  %a = kvq.clip %x constant(0x7FF0000000000000) per row : !kvq.rows<?x64xbf16>
  return
}

// -----

func.func @scope(%x: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{invalid value for property scope, expected row or group}}
  // expected-error @below {{expected one of [row, group] for row or group, got: page}}
  %a = kvq.clip %x ratio(0.5) per page : !kvq.rows<?x64xbf16>
  return
}

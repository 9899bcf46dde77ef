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

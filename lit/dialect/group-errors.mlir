// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --split-input-file --verify-diagnostics

// expected-note @below {{the rows have type '!kvq.rows<?x96xbf16>' here}}
func.func @does_not_divide(%x: !kvq.rows<?x96xbf16>) {
  // expected-error @below {{expects a group size that divides the head dim 96 and is a multiple of 32 or the head dim itself, got 64}}
  %a = kvq.group %x along channel size 64 : !kvq.rows<?x96xbf16>
  return
}

// -----

// expected-note @below {{the rows have type '!kvq.rows<?x64xbf16>' here}}
func.func @small(%x: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects a group size that divides the head dim 64 and is a multiple of 32 or the head dim itself, got 16}}
  %a = kvq.group %x along channel size 16 : !kvq.rows<?x64xbf16>
  return
}

// -----

// expected-note @below {{the rows have type '!kvq.rows<?x64xbf16>' here}}
func.func @zero(%x: !kvq.rows<?x64xbf16>) {
  // expected-error @below {{expects a group size that divides the head dim 64 and is a multiple of 32 or the head dim itself, got 0}}
  %a = kvq.group %x along channel size 0 : !kvq.rows<?x64xbf16>
  return
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one table of bounds of the numeric suite. Codes and bytes have no bound: they are equal.
//
// Attention on the CPU is held to a relative l2 error of 1e-5 against float64 attention over the
// dequantized cache: on random data, on heavy tails, and on one dominant token plus a flat tail.
// Derivation, with u = 2^-24:
//   - A logit is a sum of D products in chains of at most D / 8 per lane, then 3 more adds. Errors
//     are independent and of either sign: about sqrt(D / 8) u |q| |k| scale. For D = 576 and
//     |q| |k| scale = 24 that is 1.2e-5 at a logit of that size, 1e-6 at the usual size of 1 to 3.
//   - exp adds 2e-7; a factor per split and per growth of the maximum adds 2 u each.
//   - Sums of p and of p v have at most split_tokens / 16 terms per lane: 64 u = 4e-6 at worst for
//     the default of 1024. A dominant token swallows tail terms below u of it, which a longer split
//     lets happen more often: 1e-4 was seen with 100,000 tokens in one split. The bound is for
//     splits of at most 2048 tokens.
// Seen on this data: 1e-7 to 4e-7. The log-sum-exp is a logit plus a logarithm: absolute, 1e-5
// times max(1, |lse|).
#pragma once

#include "kvq/layout.h"

namespace kvq::test {

/// Relative l2, over a call and over any single head.
inline constexpr double kAttentionError = 1e-5;
/// Absolute, times max(1, |lse|).
inline constexpr double kLseError = 1e-5;

/// Half a unit of the last place of an output type, relative: what rounding the output adds to the
/// l2 error.
inline double outputRounding(ElementType type) {
  return type == ElementType::f32 ? 0 : type == ElementType::f16 ? 0x1p-11 : 0x1p-8;
}

} // namespace kvq::test

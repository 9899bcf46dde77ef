// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one table of bounds of the numeric suite. Codes and bytes have no bound: they are equal.
//
// Attention on the CPU is held to a relative l2 error of 1e-5 against float64 attention over the
// dequantized cache (design: CPU 1e-5 on random data, heavy tails, and one dominant token plus a
// flat tail). Derivation, u = 2^-24:
//   * a logit is a sum of D products in chains of at most D / 8 per lane, then log2(8) adds: its
//   error is below
//     (D / 8 + 5) u sum |q k|. With scale 1 / sqrt(D), |q k| of order 1 and D = 576, that is 77 u
//     24 = 1.1e-4 at worst and, errors being independent, of order sqrt(77) u 24 = 1.2e-5 times
//     |logit| / 24: about 1e-6 in practice.
//   * exp adds 2e-7 relative; a factor per split and per growth of the maximum adds 2 u each.
//   * sums of p and p v run over at most split_tokens / 16 = 64 terms per lane: 64 u = 4e-6 at
//   worst.
// Measured on the same data: 1e-7 to 4e-7. The log-sum-exp is a logit plus a logarithm: absolute
// 1e-5 times max(1, |lse|).
#pragma once

#include "kvq/layout.h"

namespace kvq::test {

inline constexpr double kAttentionError =
    1e-5;                                 ///< relative l2 over a call, and over any single head
inline constexpr double kLseError = 1e-5; ///< absolute, times max(1, |lse|)

/// Half a unit of the last place of an output type, relative: what rounding the output adds to the
/// l2 error.
inline double outputRounding(ElementType type) {
  return type == ElementType::f32 ? 0 : type == ElementType::f16 ? 0x1p-11 : 0x1p-8;
}

} // namespace kvq::test

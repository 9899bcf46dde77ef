// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one table of bounds that kernels are held to. Codes and bytes have no bound: they are equal.
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

namespace kvq {

/// Relative l2, over a call and over any single head.
inline constexpr double kAttentionError = 1e-5;
/// Absolute, times max(1, |lse|).
inline constexpr double kLseError = 1e-5;

// GPU kernels: integer dots of 15-bit queries and 16-bit probabilities (docs/testing.md). Relative
// l2 over a call and over the worst query head, measured on an H200 with the hand-written kernels
// of the same arithmetic, 4 x 4096 and 1 x 32768 tokens: random rows 1.1e-4 to 1.9e-4, worst
// head 3.3e-4; heavy-tailed rows, also with values of mean 1.5, 2.5e-4 to 4.6e-4, worst
// head 1.7e-3. The bounds are those numbers with room for other seeds. Where they come from:
//   - a probability is one of 65536 steps of the largest p s_v so far: a step of weight w is off by
//     at most 2^-17 of the largest, and only the deviation from the middle of the group is so
//     weighted (the middle has exact weights);
//   - a query channel is off by at most 2^-15 of the head's largest |q|. With outliers in q and
//   keys of
//     large scale a logit of some hundred is then off by 1e-2 and its probability by as much: this
//     is the error of heavy-tailed rows, and of the log-sum-exp, 8e-3 there and 1.2e-5 on random
//     rows.
/// Random rows: relative l2, over a call and over a single query head; log-sum-exp, absolute.
inline constexpr double kGpuRandomError = 3e-4, kGpuRandomHeadError = 6e-4,
                        kGpuRandomLseError = 1e-3;
/// Heavy-tailed rows, and a dominant token with a flat tail.
inline constexpr double kGpuError = 6e-4, kGpuHeadError = 2.5e-3, kGpuLseError = 2e-2;

/// The error before the output was rounded to f16 or bf16 is estimated (tools/gpu-check/
/// ErrorMeasure.h): that much for the spread of the estimate over a call, and over a head, where a
/// softmax with one key may lie on the border of a unit in many channels.
inline constexpr double kRoundedOutputSlack = 1.3, kRoundedHeadSlack = 3;

/// Half a unit of the last place of an output type, relative: what rounding the output adds to the
/// l2 error.
inline double outputRounding(ElementType type) {
  return type == ElementType::f32 ? 0 : type == ElementType::f16 ? 0x1p-11 : 0x1p-8;
}

} // namespace kvq

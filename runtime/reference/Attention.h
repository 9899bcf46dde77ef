// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention in f64. Over the original rows it measures a method; over dequantized rows, a kernel.
#pragma once

#include <cstdint>
#include <vector>

namespace kvq {

/// Query head j reads KV head j / (qHeads / kvHeads). Query row i of queryRows is at position
/// length - queryRows + i.
struct AttentionShape {
  int qHeads = 1, kvHeads = 1; ///< qHeads is a multiple of kvHeads
  int keyDim = 0, valueDim = 0;
  int64_t queryRows = 1;
};

struct AttentionRule {
  double scale = 1;
  bool causal = true; ///< a query sees keys up to its own position; else all of them
  double softcap = 0; ///< above 0: logits become softcap * tanh(logit / softcap)
  int64_t window = 0; ///< above 0: a query sees that many last keys at most, its own included
  std::vector<double> sinks; ///< per query head: a logit without a value; empty: none
};

struct AttentionResult {
  std::vector<double> out; ///< [queryRows, qHeads, valueDim]
  std::vector<double> lse; ///< [queryRows, qHeads]: natural log-sum-exp of the logits, the sink
                           ///< among them
};

/// One sequence: queries [queryRows, qHeads, keyDim], keys [kvHeads, length, keyDim], values
/// [kvHeads, length, valueDim]. A query that sees no key gives zeros and an lse of -inf, sinks or
/// not.
AttentionResult exactAttention(const AttentionShape &shape, const AttentionRule &rule,
                               int64_t length, const std::vector<double> &queries,
                               const std::vector<double> &keys, const std::vector<double> &values);

/// |got - expected| / |expected| over `size` numbers; 0 when both are 0, NaN when a number is.
double relativeError(const double *got, const double *expected, int64_t size);
double relativeError(const std::vector<double> &got, const std::vector<double> &expected);

} // namespace kvq

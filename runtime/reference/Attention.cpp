// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/reference/Attention.h"

#include <algorithm>
#include <cmath>

namespace kvq {
namespace {

/// The keys [first, end) that a query at `position` sees.
struct Visible {
  int64_t first, end;
};

Visible visibleKeys(const AttentionRule &rule, int64_t position, int64_t length) {
  Visible keys = {0, length};
  if (rule.causal)
    keys.end = std::max<int64_t>(position + 1, 0);
  if (rule.window > 0)
    keys.first = std::max<int64_t>(position + 1 - rule.window, 0);
  return keys;
}

double dot(const double *a, const double *b, int size) {
  double sum = 0;
  for (int i = 0; i < size; ++i)
    sum += a[i] * b[i];
  return sum;
}

/// Logits of the visible keys.
std::vector<double> logitsOf(const AttentionRule &rule, Visible visible, const double *query,
                             const double *keys, int dim) {
  std::vector<double> logits;
  for (int64_t t = visible.first; t < visible.end; ++t) {
    const double logit = rule.scale * dot(query, keys + t * dim, dim);
    logits.push_back(rule.softcap > 0 ? rule.softcap * std::tanh(logit / rule.softcap) : logit);
  }
  return logits;
}

/// Adds softmax(logits) V to `out`; returns the log-sum-exp. The sink is a logit without a value. A
/// query that sees no key has no softmax, with a sink or without.
double combine(const std::vector<double> &logits, const double *sink, const double *values, int dim,
               double *out) {
  if (logits.empty())
    return -INFINITY;
  double largest = *std::max_element(logits.begin(), logits.end());
  if (sink)
    largest = std::max(largest, *sink);
  double sum = sink ? std::exp(*sink - largest) : 0;
  for (double logit : logits)
    sum += std::exp(logit - largest);
  for (size_t t = 0; t < logits.size(); ++t) {
    const double probability = std::exp(logits[t] - largest) / sum;
    for (int d = 0; d < dim; ++d)
      out[d] += probability * values[int64_t(t) * dim + d];
  }
  return largest + std::log(sum);
}

} // namespace

AttentionResult exactAttention(const AttentionShape &shape, const AttentionRule &rule,
                               int64_t length, const std::vector<double> &queries,
                               const std::vector<double> &keys, const std::vector<double> &values) {
  AttentionResult result;
  const int64_t rows = shape.queryRows * shape.qHeads;
  result.out.resize(rows * shape.valueDim);
  result.lse.resize(rows);
  const int queriesPerKey = shape.qHeads / shape.kvHeads;
  for (int64_t row = 0; row < rows; ++row) {
    const int head = int(row % shape.qHeads), kvHead = head / queriesPerKey;
    const int64_t position = length - shape.queryRows + row / shape.qHeads;
    const Visible visible = visibleKeys(rule, position, length);
    const double *headKeys = keys.data() + kvHead * length * shape.keyDim;
    const double *headValues = values.data() + kvHead * length * shape.valueDim;
    const std::vector<double> logits =
        logitsOf(rule, visible, queries.data() + row * shape.keyDim, headKeys, shape.keyDim);
    const double *sink = rule.sinks.empty() ? nullptr : &rule.sinks[head];
    result.lse[row] = combine(logits, sink, headValues + visible.first * shape.valueDim,
                              shape.valueDim, result.out.data() + row * shape.valueDim);
  }
  return result;
}

double relativeError(const double *got, const double *expected, int64_t size) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < size; ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

double relativeError(const std::vector<double> &got, const std::vector<double> &expected) {
  return relativeError(got.data(), expected.data(), int64_t(expected.size()));
}

} // namespace kvq

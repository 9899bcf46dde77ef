// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/Reference.h"

#include "runtime/reference/Rotation.h"
#include "tools/device/Parallel.h"

#include <algorithm>
#include <cmath>

namespace kvq {
namespace {

constexpr int64_t kBlockTokens = 512;

/// Rows of one KV head in the model's basis.
struct HeadRows {
  std::vector<double> keys, values; ///< [length, dim]
};

/// `head` counts from the first of the sequence.
HeadRows headRows(const Subject &subject, const RecordLayout &layout,
                  const CachedSequence &sequence, int64_t head) {
  const CacheMethod &method = subject.method;
  const RowPlace place = {subject.layer, sequence.firstHead + head};
  HeadRows out;
  out.keys.resize(sequence.length * method.key.record.dim);
  out.values.resize(sequence.length * method.value.record.dim);
  parallelFor((sequence.length + kBlockTokens - 1) / kBlockTokens, [&](int64_t block) {
    const int64_t end = std::min(sequence.length, (block + 1) * kBlockTokens);
    for (int64_t token = block * kBlockTokens; token < end; ++token)
      for (auto [side, rows] : {std::pair('k', &out.keys), std::pair('v', &out.values)}) {
        const std::vector<double> row =
            cachedRow(method, layout, subject.constants, place, sequence.tokens, head, side, token);
        std::copy(row.begin(), row.end(), rows->begin() + token * int64_t(row.size()));
      }
  });
  return out;
}

/// Rotates a row forward, or back, by the rotations of a side.
void turn(const Subject &subject, const SideMethod &side, RowPlace place, bool back,
          std::vector<double> &row) {
  std::vector<const Step *> steps;
  for (const Step &step : side.steps)
    if (step.kind == Step::Kind::rotate)
      steps.insert(back ? steps.begin() : steps.end(), &step);
  for (const Step *step : steps)
    if (back)
      unrotateRow(step->factors, subject.constants, place, row);
    else
      rotateRow(step->factors, subject.constants, place, row);
}

/// Row `row` of query token `token`, of KV head `head` of the sequence.
AttentionResult expectedRow(const Subject &subject, const CachedSequence &sequence,
                            const HeadRows &cache, int64_t head, int64_t row, int64_t token) {
  const CacheMethod &method = subject.method;
  const int keyDim = method.key.record.dim, valueDim = method.value.record.dim;
  const int64_t end = sequence.length - sequence.qLength + token + 1;
  const int64_t window = sequence.window ? sequence.window : method.attention.window;
  const int64_t begin = window ? std::max<int64_t>(0, end - window) : 0;
  if (end <= 0)
    return {std::vector<double>(size_t(valueDim)), {-INFINITY}};
  const RowPlace place = {subject.layer, sequence.firstHead + head};
  const int64_t at = token * sequence.heads * sequence.group + row;
  std::vector<double> query(sequence.queries.begin() + at * keyDim,
                            sequence.queries.begin() + (at + 1) * keyDim);
  if (!method.attention.rotate_query) // it arrived rotated
    turn(subject, method.key, place, true, query);
  AttentionRule rule;
  rule.scale = method.attention.scale, rule.softcap = method.attention.softcap;
  if (!sequence.sinks.empty())
    rule.sinks = {double(sequence.sinks[size_t(row)])};
  else if (const float *own = subject.constants.sinks(method, subject.layer))
    rule.sinks = {double(own[sequence.firstHead * subject.group() + row])};
  auto part = [&](const std::vector<double> &rows, int dim) {
    return std::vector<double>(rows.begin() + begin * dim, rows.begin() + end * dim);
  };
  AttentionResult one = exactAttention({1, 1, keyDim, valueDim}, rule, end - begin, query,
                                       part(cache.keys, keyDim), part(cache.values, valueDim));
  if (!method.attention.unrotate_output)
    turn(subject, method.value, place, false, one.out);
  return one;
}

} // namespace

AttentionResult expectedAttention(const Subject &subject, const CachedSequence &sequence) {
  const int64_t rows = sequence.heads * sequence.group;
  const int valueDim = subject.method.value.record.dim;
  const RecordLayout layout = subject.layout(sequence.tokens.records.tokens);
  AttentionResult out;
  out.out.resize(sequence.qLength * rows * valueDim);
  out.lse.resize(sequence.qLength * rows);
  for (int64_t head = 0; head < sequence.heads; ++head) {
    const HeadRows cache = headRows(subject, layout, sequence, head);
    parallelFor(int64_t(sequence.qLength) * sequence.group, [&](int64_t i) {
      const int64_t token = i / sequence.group, row = head * sequence.group + i % sequence.group;
      const AttentionResult one = expectedRow(subject, sequence, cache, head, row, token);
      const int64_t at = token * rows + row;
      std::copy(one.out.begin(), one.out.end(), out.out.begin() + at * valueDim);
      out.lse[at] = one.lse[0];
    });
  }
  return out;
}

} // namespace kvq

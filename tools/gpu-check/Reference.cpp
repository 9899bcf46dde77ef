// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/Reference.h"

#include "runtime/reference/Append.h"
#include "runtime/reference/Rotation.h"
#include "tools/device/Parallel.h"

namespace kvq {
namespace {

constexpr int64_t kBlockTokens = 512;

/// Rows of one KV head in the model's basis.
struct HeadRows {
  std::vector<double> keys, values; ///< [length, dim]
};

/// `head` counts from the first of the sequence.
HeadRows dequantizeHead(const Subject &subject, const RecordLayout &layout,
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
        const uint8_t *record = sequence.pages[token / sequence.page] + head * sequence.headStride;
        const std::vector<double> row = dequantize(method, layout, subject.constants, place, record,
                                                   side, token % sequence.page);
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

} // namespace

AttentionResult expectedAttention(const Subject &subject, const CachedSequence &sequence) {
  const CacheMethod &method = subject.method;
  const int64_t group = subject.group(), rows = sequence.heads * group;
  const int keyDim = method.key.record.dim, valueDim = method.value.record.dim;
  const RecordLayout layout = subject.layout(sequence.page);
  AttentionRule rule;
  rule.scale = method.attention.scale;
  AttentionResult out;
  out.out.resize(rows * valueDim);
  out.lse.resize(rows);
  for (int64_t head = 0; head < sequence.heads; ++head) {
    const HeadRows cache = dequantizeHead(subject, layout, sequence, head);
    const RowPlace place = {subject.layer, sequence.firstHead + head};
    parallelFor(group, [&](int64_t member) {
      const int64_t row = head * group + member;
      std::vector<double> query(sequence.queries.begin() + row * keyDim,
                                sequence.queries.begin() + (row + 1) * keyDim);
      if (!method.attention.rotate_query) // it arrived rotated
        turn(subject, method.key, place, true, query);
      AttentionResult one = exactAttention({1, 1, keyDim, valueDim}, rule, sequence.length, query,
                                           cache.keys, cache.values);
      if (!method.attention.unrotate_output)
        turn(subject, method.value, place, false, one.out);
      std::copy(one.out.begin(), one.out.end(), out.out.begin() + row * valueDim);
      out.lse[row] = one.lse[0];
    });
  }
  return out;
}

} // namespace kvq

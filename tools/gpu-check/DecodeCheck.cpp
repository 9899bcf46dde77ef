// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/DecodeCheck.h"

#include "runtime/reference/Tolerances.h"
#include "runtime/reference/convert.h"
#include "tools/gpu-check/ErrorMeasure.h"

#include <cstdio>

namespace kvq {
namespace {

/// An output row with its place, for messages: rows of a sequence are query tokens times heads.
std::string place(int64_t sequence, int64_t row) {
  return "sequence " + std::to_string(sequence) + ", output row " + std::to_string(row);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

void fail(CheckResult &result, const std::string &text) {
  if (result.failure.empty())
    result.failure = text;
}

/// A comparison that NaN fails.
bool within(double value, double bound) { return value <= bound; }

/// Zeros exactly and minus infinity: a query that attends nothing. `at`: its output row of all.
void checkEmpty(const Decoded &got, int64_t at, const std::string &where, int64_t dim,
                CheckResult &result) {
  for (int64_t d = 0; d < dim; ++d)
    if (got.out[at * dim + d] != 0)
      fail(result, where + ": expected 0 for a query that attends nothing, got bits " +
                       std::to_string(got.out[at * dim + d]));
  if (got.lse[at] != -INFINITY)
    fail(result, where + ": expected a log-sum-exp of -inf for a query that attends nothing, got " +
                     number(got.lse[at]));
}

ErrorMeasure measureRow(ElementType type, const uint32_t *got, const double *expected, int dim) {
  double squares = 0;
  for (int d = 0; d < dim; ++d)
    squares += expected[d] * expected[d];
  ErrorMeasure measure;
  for (int d = 0; d < dim; ++d)
    measure.add(type, got[d], expected[d], std::sqrt(squares / dim));
  return measure;
}

/// A row that attends something, by its relative error and its log-sum-exp.
void compareRow(const DecodeBounds &bounds, double error, double gotLse, double lse,
                const std::string &where, CheckResult &result) {
  result.worstHead = std::max(result.worstHead, error);
  if (!within(error, bounds.head))
    fail(result, where + ": relative error " + number(error) + ", at most " + number(bounds.head));
  const double difference = std::fabs(gotLse - lse);
  const double bound = bounds.lse * (bounds.lseGrows ? std::max(1.0, std::fabs(lse)) : 1);
  result.lse = std::max(result.lse, difference);
  if (!within(difference, bound))
    fail(result, where + ": log-sum-exp expected " + number(lse) + ", differs by " +
                     number(difference) + ", at most " + number(bound));
}

} // namespace

DecodeBounds decodeBounds(kvq_target target, ElementType rows, const RowKind &kind) {
  const double slack = rows == ElementType::f32 ? 1 : kRoundedOutputSlack;
  if (target == KVQ_TARGET_CPU)
    return {slack * kAttentionError, slack * kRoundedHeadSlack * kAttentionError, kLseError, true};
  if (kind.shape == RowKind::Shape::random)
    return {slack * kGpuRandomError, slack * kGpuRandomHeadError, kGpuRandomLseError, false};
  return {slack * kGpuError, slack * kGpuHeadError, kGpuLseError, false};
}

void compareDecoded(const Subject &subject, const DecodeBounds &bounds, const Decoded &got,
                    const std::vector<AttentionResult> &expected, CheckResult &result) {
  const int dim = subject.method.value.record.dim;
  if (!got.paddingKept)
    fail(result, "bytes between the rows of the output changed");
  ErrorMeasure call;
  int64_t at = 0; // output row of all sequences
  for (size_t s = 0; s < expected.size(); ++s)
    for (size_t row = 0; row < expected[s].lse.size(); ++row, ++at) {
      const std::string where = place(int64_t(s), int64_t(row));
      const double lse = expected[s].lse[row];
      if (std::isinf(lse)) {
        checkEmpty(got, at, where, dim, result);
        continue;
      }
      const ErrorMeasure head =
          measureRow(subject.method.attention.rows, &got.out[size_t(at * dim)],
                     &expected[s].out[row * size_t(dim)], dim);
      call.add(head);
      compareRow(bounds, head.relative(), got.lse[size_t(at)], lse, where, result);
    }
  result.error = std::max(result.error, call.relative());
  if (!within(call.relative(), bounds.call))
    fail(result, "relative error of the call " + number(call.relative()) + ", at most " +
                     number(bounds.call));
}

void sameBits(const Decoded &got, const Decoded &expected, const std::string &what,
              CheckResult &result) {
  if (!(got == expected))
    fail(result, what + ": the bits differ");
}

Decoded rowsOf(const Decoded &all, int64_t first, int64_t count, int64_t dim) {
  Decoded out;
  out.out.assign(all.out.begin() + first * dim, all.out.begin() + (first + count) * dim);
  out.lse.assign(all.lse.begin() + first, all.lse.begin() + first + count);
  return out;
}

SceneSpec sceneOf(const Subject &subject, const RowKind &kind, int64_t heads, int64_t page,
                  uint64_t seed) {
  SceneSpec spec;
  spec.kind = kind, spec.page = page, spec.seed = seed;
  spec.heads = std::min<int64_t>(heads, subject.method.kv_heads);
  spec.firstHead = subject.method.kv_heads - spec.heads;
  return spec;
}

CheckResult checkDecode(const Subject &subject, const std::string &name, const SceneSpec &spec) {
  CheckResult result;
  result.name = name;
  Scene scene(subject, spec);
  const DecodeBounds bounds =
      decodeBounds(subject.device.target(), subject.method.attention.rows, spec.kind);
  const Decoded byLoad = scene.decode(0);
  compareDecoded(subject, bounds, byLoad, scene.expected(), result);
  sameBits(scene.decode(0, {}, true), byLoad, "decoded again", result);
  const Decoded fixed = scene.decode(kSplit);
  compareDecoded(subject, bounds, fixed, scene.expected(), result);
  sameBits(scene.decode(kSplit, {}, true), fixed, "decoded again in fixed splits", result);
  const int64_t heads = spec.heads * scene.group();
  int64_t first = 0; // query token
  for (int64_t i = 0; scene.batch() > 1 && i < scene.batch(); first += scene.queryTokens(i), ++i)
    if (i % (scene.batch() > 16 ? 7 : 3) == 0)
      sameBits(scene.decode(kSplit, {i}),
               rowsOf(fixed, first * heads, scene.queryTokens(i) * heads,
                      subject.method.value.record.dim),
               "sequence " + std::to_string(i) + " in fixed splits alone and in its batch", result);
  return result;
}

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/DecodeCheck.h"

#include "runtime/reference/Tolerances.h"
#include "runtime/reference/convert.h"
#include "tools/gpu-check/ErrorMeasure.h"

#include <cstdio>

namespace kvq {
namespace {

constexpr int64_t kSplit = 1024;

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

/// Zeros exactly and minus infinity: a query that attends nothing.
void checkEmpty(const Decoded &got, int64_t sequence, int64_t row, int64_t rows, int64_t dim,
                CheckResult &result) {
  const int64_t at = sequence * rows + row;
  for (int64_t d = 0; d < dim; ++d)
    if (got.out[at * dim + d] != 0)
      fail(result, place(sequence, row) +
                       ": expected 0 for a query that attends nothing, got bits " +
                       std::to_string(got.out[at * dim + d]));
  if (got.lse[at] != -INFINITY)
    fail(result, place(sequence, row) +
                     ": expected a log-sum-exp of -inf for a query that attends nothing, got " +
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

void sameBits(const Decoded &got, const Decoded &expected, const std::string &what,
              CheckResult &result) {
  if (!(got == expected))
    fail(result, what + ": the bits differ");
}

/// The rows of one sequence of a batch.
Decoded only(const Decoded &all, int64_t sequence, int64_t rows, int64_t dim) {
  Decoded out;
  out.out.assign(all.out.begin() + sequence * rows * dim,
                 all.out.begin() + (sequence + 1) * rows * dim);
  out.lse.assign(all.lse.begin() + sequence * rows, all.lse.begin() + (sequence + 1) * rows);
  return out;
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
  const int64_t rows = int64_t(expected[0].lse.size());
  if (!got.paddingKept)
    fail(result, "bytes between the rows of the output changed");
  ErrorMeasure call;
  for (int64_t s = 0; s < int64_t(expected.size()); ++s) {
    for (int64_t row = 0; row < rows; ++row) {
      if (std::isinf(expected[s].lse[row])) {
        checkEmpty(got, s, row, rows, dim, result);
        continue;
      }
      const ErrorMeasure head =
          measureRow(subject.method.attention.rows, &got.out[(s * rows + row) * dim],
                     &expected[s].out[row * dim], dim);
      call.add(head);
      result.worstHead = std::max(result.worstHead, head.relative());
      if (!within(head.relative(), bounds.head))
        fail(result, place(s, row) + ": relative error " + number(head.relative()) + ", at most " +
                         number(bounds.head));
      const double lse = expected[s].lse[row],
                   difference = std::fabs(got.lse[s * rows + row] - lse);
      const double bound = bounds.lse * (bounds.lseGrows ? std::max(1.0, std::fabs(lse)) : 1);
      result.lse = std::max(result.lse, difference);
      if (!within(difference, bound))
        fail(result, place(s, row) + ": log-sum-exp expected " + number(lse) + ", differs by " +
                         number(difference) + ", at most " + number(bound));
    }
  }
  result.error = std::max(result.error, call.relative());
  if (!within(call.relative(), bounds.call))
    fail(result, "relative error of the call " + number(call.relative()) + ", at most " +
                     number(bounds.call));
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
  for (int64_t i = 0; scene.batch() > 1 && i < scene.batch(); i += scene.batch() > 16 ? 7 : 3)
    sameBits(scene.decode(kSplit, {i}),
             only(fixed, i, scene.rows(), subject.method.value.record.dim),
             "sequence " + std::to_string(i) + " in fixed splits alone and in its batch", result);
  return result;
}

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// gpu-check on libraries that are right and on libraries that are not: a library whose method says
// something else than its kernels do is one with wrong kernels.
#include "runtime/reference/Append.h"
#include "runtime/reference/Rotation.h"
#include "tools/gpu-check/Checks.h"
#include "tools/gpu-check/DecodeCheck.h"
#include "tools/gpu-check/PageCheck.h"
#include "tools/gpu-check/Reference.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvq {
namespace {

const std::string kInt2 = KVQ_TEST_LIBRARIES "/int2.kvqlib";
const std::string kRotated = KVQ_TEST_LIBRARIES "/rotated.kvqlib";
const std::string kWindows = KVQ_TEST_LIBRARIES "/windows.kvqlib";

CheckPlan shortPlan() {
  CheckPlan plan;
  for (const char *name : {"random", "heavy+mean", "dominant+mean"})
    plan.kinds.push_back(RowKind::parse(name));
  plan.lengths = {0, 1, 15, 16, 17, 63, 64, 65, 700};
  return plan;
}

std::vector<CheckResult> checkAll(const Subject &subject) {
  std::vector<CheckResult> results;
  checkLibrary(subject, shortPlan(), [&](const CheckResult &r) { results.push_back(r); });
  return results;
}

/// Every failure of a library whose method is changed, its kernels not.
std::string failuresOf(const std::string &path, void (*change)(CacheMethod &)) {
  FileBytes file;
  EXPECT_EQ(FileBytes::read(path, file), "");
  LibraryView view;
  EXPECT_EQ(parseLibrary(file.span(), view), "");
  auto text = [](ByteSpan span) {
    return std::string(static_cast<const char *>(span.data), span.size);
  };
  CacheMethod method;
  EXPECT_EQ(parseMethod(text(view.formats.front().method), method), "");
  change(method);
  LibraryContents contents;
  contents.manifest = text(view.manifest);
  contents.formats = {{methodText(method), text(view.formats.front().constants)}};
  contents.layers = view.layers;
  for (const ByteSpan &object : view.objects)
    contents.objects.push_back(text(object));
  contents.kernels = view.kernels;
  std::string changed;
  EXPECT_EQ(libraryBytes(contents, changed), "");
  FileBytes copy;
  EXPECT_EQ(FileBytes::copy({changed.data(), changed.size()}, copy), "");
  std::unique_ptr<Device> device = openHostDevice();
  const Subject subject("changed", std::move(copy), *device);
  std::string failures;
  for (const CheckResult &result : checkAll(subject))
    if (!result.failure.empty())
      failures += result.name + ": " + result.failure + "\n";
  return failures;
}

TEST(GpuCheck, RightLibrariesPass) {
  std::unique_ptr<Device> device = openHostDevice();
  for (const std::string &path : {kInt2, kRotated}) {
    const Subject subject(path, *device);
    const std::vector<CheckResult> results = checkAll(subject);
    // Append in four page sizes, dequantize twice, two ragged scenes for each kind, many sequences,
    // eight modifiers, ragged queries twice, pages moved and shared, query tokens alone.
    EXPECT_EQ(results.size(), 4u + 2 + 2 * 3 + 1 + 8 + 2 + 2 + 1) << path;
    for (const CheckResult &result : results)
      EXPECT_EQ(result.failure, "") << path << ": " << result.name;
  }
}

/// Append, dequantize, and windows that move by 1, 8 and a page.
TEST(GpuCheck, LibrariesWithWindowsPass) {
  std::unique_ptr<Device> device = openHostDevice();
  const Subject subject(kWindows, *device);
  const std::vector<CheckResult> results = checkAll(subject);
  EXPECT_EQ(results.size(), 4u + 2 + 3);
  for (const CheckResult &result : results)
    EXPECT_EQ(result.failure, "") << result.name;
}

/// Kernels that keep other windows than the method says, and that attend them otherwise.
TEST(GpuCheck, WrongWindowsFail) {
  std::string failures = failuresOf(kWindows, [](CacheMethod &method) { method.sink = 18; });
  EXPECT_NE(failures.find("windows, step 1"), std::string::npos) << failures;
  failures = failuresOf(kWindows, [](CacheMethod &method) { method.attention.softcap = 5; });
  EXPECT_NE(failures.find("windows, step 8"), std::string::npos) << failures;
}

/// What needs a pool of gigabytes on a GPU, in a small one.
TEST(GpuCheck, FarPagesAndLongSequencesPass) {
  std::unique_ptr<Device> device = openHostDevice();
  const Subject subject(kRotated, *device);
  EXPECT_EQ(checkFarPages(subject, {}, int64_t(1) << 22).failure, "");
  EXPECT_EQ(checkRowsAlone(subject, {}, 2500, int64_t(1) << 22).failure, "");
}

TEST(GpuCheck, WrongCodesFail) {
  const std::string failures =
      failuresOf(kRotated, [](CacheMethod &method) { method.value.steps.back().value = 0.9; });
  EXPECT_NE(failures.find("append random, page 16: page "), std::string::npos) << failures;
  EXPECT_NE(failures.find("bytes differ"), std::string::npos) << failures;
  EXPECT_EQ(failures.find("ragged"), std::string::npos) << "nothing is decoded after that";
}

TEST(GpuCheck, WrongRotationFails) {
  const std::string failures =
      failuresOf(kRotated, [](CacheMethod &method) { method.attention.rotate_query = false; });
  EXPECT_NE(failures.find("relative error"), std::string::npos) << failures;
  EXPECT_EQ(failures.find("append"), std::string::npos) << failures;
}

/// The last digits: an output that is off by less than its rounding.
TEST(GpuCheck, ErrorsBelowTheRoundingOfTheOutputFail) {
  std::unique_ptr<Device> device = openHostDevice();
  const Subject subject(kInt2, *device);
  SceneSpec spec;
  spec.lengths = {300, 500};
  spec.heads = 3;
  Scene scene(subject, spec);
  const Decoded got = scene.decode(0);
  const DecodeBounds bounds =
      decodeBounds(KVQ_TARGET_CUDA, subject.method.attention.rows, spec.kind);
  CheckResult right;
  compareDecoded(subject, bounds, got, scene.expected(), right);
  EXPECT_EQ(right.failure, "");
  std::vector<AttentionResult> shifted = scene.expected();
  for (AttentionResult &result : shifted)
    for (size_t i = 0; i < result.out.size(); ++i)
      result.out[i] *= i % 2 ? 1 + 1e-3 : 1 - 1e-3; // bf16 rounds by up to 3.9e-3
  CheckResult wrong;
  compareDecoded(subject, bounds, got, shifted, wrong);
  EXPECT_NE(wrong.failure.find("relative error"), std::string::npos) << wrong.failure;
  CheckResult late;
  for (AttentionResult &result : shifted = scene.expected())
    result.lse[1] += 2e-3;
  compareDecoded(subject, bounds, got, shifted, late);
  EXPECT_NE(late.failure.find("log-sum-exp"), std::string::npos) << late.failure;
}

TEST(GpuCheck, DamagedOutputsFail) {
  std::unique_ptr<Device> device = openHostDevice();
  const Subject subject(kInt2, *device);
  SceneSpec spec;
  spec.lengths = {0, 40};
  Scene scene(subject, spec);
  const DecodeBounds bounds =
      decodeBounds(KVQ_TARGET_CUDA, subject.method.attention.rows, spec.kind);
  const Decoded good = scene.decode(0);
  auto failureOf = [&](auto change) {
    Decoded bad = good;
    change(bad);
    CheckResult result;
    compareDecoded(subject, bounds, bad, scene.expected(), result);
    return result.failure;
  };
  EXPECT_EQ(failureOf([](Decoded &) {}), "");
  EXPECT_NE(failureOf([](Decoded &bad) { bad.out.back() = 0xffff; }), "") << "not written";
  EXPECT_NE(failureOf([](Decoded &bad) { bad.out[5] = 1; }), "") << "empty sequence";
  EXPECT_NE(failureOf([](Decoded &bad) { bad.lse[0] = 0; }), "") << "empty sequence";
  EXPECT_NE(failureOf([](Decoded &bad) { bad.lse.back() = NAN; }), "");
  EXPECT_NE(failureOf([](Decoded &bad) { bad.paddingKept = false; }), "");
}

/// The threaded oracle calls the scalar one by heads: the same bits.
TEST(Reference, EqualsTheScalarOracle) {
  std::unique_ptr<Device> device = openHostDevice();
  for (const std::string &path : {kInt2, kRotated}) {
    const Subject subject(path, *device);
    const CacheMethod &method = subject.method;
    const int dim = method.key.record.dim;
    const int64_t length = 1300, page = 64, heads = method.kv_heads;
    const RecordLayout layout = subject.layout(page);
    RowShape shape;
    shape.tokens = length, shape.heads = int(heads), shape.group = subject.group();
    shape.keyDim = shape.valueDim = dim, shape.scale = method.attention.scale;
    SequenceRows rows = makeSequence({}, shape, 5);
    roundRows(method.key.rows, rows.keys);
    roundRows(method.value.rows, rows.values);
    const int64_t pages = (length + page - 1) / page;
    std::vector<uint8_t> pool(pages * heads * layout.stride, 0xff);
    std::vector<double> keys, values;
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t token = 0; token < length; ++token) {
        uint8_t *record = &pool[(token / page * heads + head) * layout.stride];
        const int64_t row = (token * heads + head) * dim;
        const RowPlace place = {subject.layer, head};
        appendToken(method, layout, subject.constants, place, record, token % page, &rows.keys[row],
                    &rows.values[row]);
        for (auto [side, out] : {std::pair('k', &keys), std::pair('v', &values)}) {
          const std::vector<double> x =
              dequantize(method, layout, subject.constants, place, record, side, token % page);
          out->insert(out->end(), x.begin(), x.end());
        }
      }
    CachedSequence sequence;
    sequence.length = sequence.tokens.quantized = length, sequence.heads = heads;
    sequence.tokens.records = {{}, layout.stride, page};
    sequence.queries = rows.queries;
    sequence.group = method.q_heads / method.kv_heads;
    for (int64_t i = 0; i < pages; ++i)
      sequence.tokens.records.pages.push_back(&pool[i * heads * layout.stride]);
    AttentionRule rule;
    rule.scale = method.attention.scale;
    AttentionResult scalar =
        exactAttention({method.q_heads, method.kv_heads, dim, dim}, rule, length,
                       {rows.queries.begin(), rows.queries.end()}, keys, values);
    if (!method.attention.unrotate_output)
      for (int64_t row = 0; row < method.q_heads; ++row) {
        std::vector<double> out(scalar.out.begin() + row * dim,
                                scalar.out.begin() + (row + 1) * dim);
        rotateRow(method.value.steps.front().factors, subject.constants, {subject.layer, row / 3},
                  out);
        std::copy(out.begin(), out.end(), scalar.out.begin() + row * dim);
      }
    const AttentionResult threaded = expectedAttention(subject, sequence);
    EXPECT_EQ(threaded.out, scalar.out) << path;
    EXPECT_EQ(threaded.lse, scalar.lse) << path;
  }
}

} // namespace
} // namespace kvq

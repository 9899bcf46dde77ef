// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decode kernels against float64 attention over the dequantized cache, in the model's basis.
#include "codegen/artifact/CompileCpu.h"
#include "codegen/conversion/BuildKernels.h"
#include "runtime/reference/Append.h"
#include "runtime/reference/Attention.h"
#include "runtime/reference/Rotation.h"
#include "runtime/reference/Tolerances.h"
#include "test/numeric/Kernels.h"
#include "test/numeric/Methods.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvq::test {
namespace {

using mlir::kvq::CpuLevel;

/// Rows of all tokens and heads of one side, [head][token][dim], f64, in the model's basis.
std::vector<double> dequantizeSide(const Cache &cache, char side, int64_t tokens) {
  Constants constants(cache.method, cache.constants);
  std::vector<double> rows;
  for (int head = 0; head < cache.method.kv_heads; ++head)
    for (int64_t token = 0; token < tokens; ++token) {
      std::vector<double> row =
          dequantize(cache.method, cache.layout, constants, {cache.layer, head},
                     cache.record(token, head), side, token % cache.page);
      rows.insert(rows.end(), row.begin(), row.end());
    }
  return rows;
}

/// Applies the rotations of a side to a row, or undoes them.
void rotateAll(const Cache &cache, const SideMethod &side, int head, bool inverse,
               std::vector<double> &row) {
  Constants constants(cache.method, cache.constants);
  RowPlace place{cache.layer, head};
  if (!inverse)
    for (const Step &step : side.steps)
      if (step.kind == Step::Kind::rotate)
        rotateRow(step.factors, constants, place, row);
  if (inverse)
    for (auto step = side.steps.rbegin(); step != side.steps.rend(); ++step)
      if (step->kind == Step::Kind::rotate)
        unrotateRow(step->factors, constants, place, row);
}

/// What a caller of the kernels expects for the first `length` tokens.
AttentionResult expectedAttention(const Cache &cache, const std::vector<float> &q, int64_t length,
                                  int64_t tokens, const std::vector<double> &keys,
                                  const std::vector<double> &values) {
  const CacheMethod &m = cache.method;
  int keyDim = m.key.record.dim, valueDim = m.value.record.dim, ratio = m.q_heads / m.kv_heads;
  std::vector<double> queries;
  for (int head = 0; head < m.q_heads; ++head) {
    std::vector<double> row(q.begin() + head * keyDim, q.begin() + (head + 1) * keyDim);
    if (!m.attention.rotate_query) // it arrived rotated
      rotateAll(cache, m.key, head / ratio, /*inverse=*/true, row);
    queries.insert(queries.end(), row.begin(), row.end());
  }
  auto prefix = [&](const std::vector<double> &all, int dim) {
    std::vector<double> rows;
    for (int head = 0; head < m.kv_heads; ++head)
      rows.insert(rows.end(), all.begin() + head * tokens * dim,
                  all.begin() + (head * tokens + length) * dim);
    return rows;
  };
  AttentionShape shape{m.q_heads, m.kv_heads, keyDim, valueDim};
  AttentionRule rule;
  rule.scale = m.attention.scale;
  AttentionResult result =
      exactAttention(shape, rule, length, queries, prefix(keys, keyDim), prefix(values, valueDim));
  if (!m.attention.unrotate_output)
    for (int head = 0; head < m.q_heads; ++head) {
      std::vector<double> row(result.out.begin() + head * valueDim,
                              result.out.begin() + (head + 1) * valueDim);
      rotateAll(cache, m.value, head / ratio, /*inverse=*/false, row);
      std::copy(row.begin(), row.end(), result.out.begin() + head * valueDim);
    }
  return result;
}

/// Holds sequence `index` of a decode to the bounds; the worst relative errors of a call go to
/// `worst`.
void checkSequence(const CacheMethod &m, const Cache::Attention &got, int64_t index,
                   const AttentionResult &expected, double &worst) {
  int64_t dim = m.value.record.dim, rows = m.q_heads;
  std::vector<double> out(got.out.begin() + index * rows * dim,
                          got.out.begin() + (index + 1) * rows * dim);
  double bound = kAttentionError + outputRounding(m.attention.rows);
  double all = relativeError(out, expected.out);
  worst = std::max(worst, all);
  EXPECT_LE(all, bound);
  for (int64_t row = 0; row < rows; ++row) {
    EXPECT_LE(relativeError(&out[row * dim], &expected.out[row * dim], dim), bound)
        << "query head " << row;
    double lse = expected.lse[row], gotLse = got.lse[index * rows + row];
    if (std::isinf(lse))
      EXPECT_EQ(gotLse, lse);
    else
      EXPECT_LE(std::fabs(gotLse - lse), kLseError * std::max(1.0, std::fabs(lse)))
          << "query head " << row;
  }
}

struct FilledCache {
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Cache> cache;
  std::vector<double> keys, values;
  Inputs inputs;
  int64_t tokens = 0;
};

/// Compiles, appends `tokens` tokens and dequantizes them.
FilledCache makeRun(const MethodCase &c, CpuLevel level, int64_t tokens, int64_t batch, Data data,
                    uint64_t seed, std::unique_ptr<Kernels> kernels = nullptr) {
  FilledCache run;
  run.tokens = tokens;
  run.kernels = kernels ? std::move(kernels) : Kernels::compile(c.method, level);
  run.cache = std::make_unique<Cache>(c.method, c.constants, tokens, c.method.page, seed);
  run.cache->layer = c.method.layers - 1;
  run.inputs = makeInputs(c.method, tokens, batch, data, seed);
  if (!run.kernels)
    return run;
  run.cache->append(*run.kernels, Rows(c.method.key.rows, run.inputs.k),
                    Rows(c.method.value.rows, run.inputs.v), 0, tokens);
  run.keys = dequantizeSide(*run.cache, 'k', tokens);
  run.values = dequantizeSide(*run.cache, 'v', tokens);
  return run;
}

/// Decodes every length in one batch and checks each.
void checkLengths(const FilledCache &run, const std::vector<int32_t> &lengths, int64_t split,
                  double &worst) {
  const CacheMethod &m = run.cache->method;
  Rows q(m.attention.rows, run.inputs.q);
  std::vector<float> queries = q.values();
  Cache::Attention got = run.cache->decode(*run.kernels, q, lengths, split);
  int64_t perSequence = int64_t(m.q_heads) * m.key.record.dim;
  for (size_t i = 0; i < lengths.size(); ++i) {
    SCOPED_TRACE("length " + std::to_string(lengths[i]) + " split " + std::to_string(split));
    std::vector<float> own(queries.begin() + i * perSequence,
                           queries.begin() + (i + 1) * perSequence);
    checkSequence(m, got, i,
                  expectedAttention(*run.cache, own, lengths[i], run.tokens, run.keys, run.values),
                  worst);
  }
}

TEST(Decode, RandomMethodsWithinBounds) {
  double worst = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    MethodCase c = randomMethod(seed * 977);
    CpuLevel level =
        static_cast<CpuLevel>(seed % (static_cast<int>(mlir::kvq::hostCpuLevel()) + 1));
    Data data = static_cast<Data>(seed % 3);
    SCOPED_TRACE("seed " + std::to_string(seed) + " on " + mlir::kvq::cpuLevelName(level).str() +
                 ": " + c.text);
    std::vector<int32_t> lengths = {0, 1, 15, 16, 17, c.method.page, c.method.page + 1, 150};
    FilledCache run = makeRun(c, level, 150, static_cast<int64_t>(lengths.size()), data, seed);
    ASSERT_TRUE(run.kernels);
    double call = 0;
    checkLengths(run, lengths, seed % 2 ? 64 : 1024, call);
    if (c.method.attention.rows == ElementType::f32)
      worst = std::max(worst, call);
  }
  RecordProperty("worst_f32", std::to_string(worst));
}

TEST(Decode, EightBitsWithinBounds) {
  for (const MethodCase &c : eightBitMethods()) {
    SCOPED_TRACE(c.text);
    FilledCache run = makeRun(c, mlir::kvq::hostCpuLevel(), 150, 3, Data::heavyTailed, 31);
    ASSERT_TRUE(run.kernels);
    double worst = 0;
    checkLengths(run, {1, 17, 150}, 64, worst);
    EXPECT_LE(worst, kAttentionError);
  }
}

/// Many pages and long tails, where fixed-point probabilities and naive sums fail first.
TEST(Decode, LongContexts) {
  for (int bits : {2, 4, 8}) {
    MethodCase c = plainMethod(64, 64, 4);
    c.method.kv_heads = 1;
    c.method.q_heads = 4;
    c.method.key.record.bits = c.method.value.record.bits = bits;
    c.method.attention.rows = ElementType::f32;
    std::unique_ptr<Kernels> kernels = Kernels::compile(c.method, mlir::kvq::hostCpuLevel());
    ASSERT_TRUE(kernels);
    for (Data data : {Data::random, Data::heavyTailed, Data::dominant}) {
      SCOPED_TRACE("bits " + std::to_string(bits) + " data " + std::to_string(int(data)));
      int64_t tokens = data == Data::dominant ? 100000 : 20000;
      FilledCache run = makeRun(c, {}, tokens, 1, data, 5, std::move(kernels));
      double worst = 0;
      for (int64_t split : {256, 1024})
        checkLengths(run, {static_cast<int32_t>(tokens)}, split, worst);
      EXPECT_LE(worst, kAttentionError);
      kernels = std::move(run.kernels);
    }
  }
}

/// One split, many splits, and splits that end inside a page.
TEST(Decode, SplitsAgree) {
  MethodCase c = plainMethod(64, 96, 3);
  c.method.attention.rows = ElementType::f32;
  for (Data data : {Data::random, Data::heavyTailed, Data::dominant}) {
    FilledCache run = makeRun(c, mlir::kvq::hostCpuLevel(), 2000, 1, data, 21);
    ASSERT_TRUE(run.kernels);
    double worst = 0;
    for (int64_t split : {16, 48, 1024, 2048})
      checkLengths(run, {2000}, split, worst);
  }
}

TEST(Decode, LargestHeadDimAndRatio) {
  MethodCase c = plainMethod(576, 512, 16);
  c.method.key.record.group = 32;
  c.method.value.record.group = 64;
  c.method.attention.rows = ElementType::f32;
  FilledCache run = makeRun(c, mlir::kvq::hostCpuLevel(), 70, 1, Data::random, 9);
  ASSERT_TRUE(run.kernels);
  double worst = 0;
  checkLengths(run, {70}, 1024, worst);
}

/// Fixed splits make the bits of a sequence independent of its batch, and of the page.
TEST(Decode, BitsDependOnNeitherBatchNorPage) {
  MethodCase c = plainMethod(128, 64, 2);
  FilledCache run = makeRun(c, mlir::kvq::hostCpuLevel(), 200, 3, Data::random, 13);
  ASSERT_TRUE(run.kernels);
  Rows q(c.method.attention.rows, run.inputs.q);
  Cache::Attention together = run.cache->decode(*run.kernels, q, {77, 200, 0}, 64);
  int64_t rows = c.method.q_heads, dim = c.method.value.record.dim;
  Cache small(c.method, c.constants, 200, 16, 99);
  small.append(*run.kernels, Rows(c.method.key.rows, run.inputs.k),
               Rows(c.method.value.rows, run.inputs.v), 0, 200);
  Cache::Attention alone = small.decode(*run.kernels, q, {77}, 64);
  EXPECT_TRUE(std::equal(alone.out.begin(), alone.out.end(), together.out.begin()));
  EXPECT_TRUE(std::equal(alone.lse.begin(), alone.lse.end(), together.lse.begin()));
  for (int64_t i = 2 * rows * dim; i < 3 * rows * dim; ++i)
    ASSERT_EQ(together.out[i], 0.0f);
}

/// Makes the keys of each KV head multiples of its query, so that token t scores about score(t).
/// One query head per KV head, one sequence.
template <typename Score> void alignKeys(FilledCache &run, Score score) {
  const CacheMethod &m = run.cache->method;
  const int64_t dim = m.key.record.dim, heads = m.kv_heads;
  for (int64_t row = 0; row < run.tokens * heads; ++row) {
    const float *q = &run.inputs.q[row % heads * dim];
    float square = std::inner_product(q, q + dim, q, 0.0f) * m.attention.scale;
    float factor = score(row / heads) / square;
    std::transform(q, q + dim, &run.inputs.k[row * dim], [=](float x) { return factor * x; });
  }
  run.cache->append(*run.kernels, Rows(m.key.rows, run.inputs.k), Rows(m.value.rows, run.inputs.v),
                    0, run.tokens);
  run.keys = dequantizeSide(*run.cache, 'k', run.tokens);
}

/// One key scores `top`, all others 150 less: no exponential of a score itself is a number one can
/// work with, and neither is that of their distance.
TEST(Decode, ScoresFarFromZeroAndApart) {
  MethodCase c = plainMethod(64, 64, 1);
  c.method.attention.rows = ElementType::f32;
  FilledCache run = makeRun(c, mlir::kvq::hostCpuLevel(), 150, 1, Data::random, 23);
  ASSERT_TRUE(run.kernels);
  for (float top : {120.0f, -120.0f})
    for (int64_t chosen : {5, 147}) {
      SCOPED_TRACE("top " + std::to_string(top) + " at " + std::to_string(chosen));
      alignKeys(run, [=](int64_t token) { return token == chosen ? top : top - 150; });
      double worst = 0;
      for (int64_t split : {64, 1024})
        checkLengths(run, {150}, split, worst);
    }
}

/// Of two keys the output holds one exponential: bounded by its own error of 2e-7, not by that of
/// the sums of a long context.
TEST(Decode, OneExponential) {
  MethodCase c = plainMethod(64, 64, 1);
  c.method.attention.rows = ElementType::f32;
  FilledCache run = makeRun(c, mlir::kvq::hostCpuLevel(), 2, 1, Data::random, 29);
  ASSERT_TRUE(run.kernels);
  double worst = 0;
  for (int step = 0; step <= 40; ++step) {
    alignKeys(run, [=](int64_t token) { return token == 0 ? 0 : -0.1f * float(step); });
    checkLengths(run, {2}, 1024, worst);
  }
  EXPECT_LE(worst, 1e-6);
}

TEST(Decode, QueryOfNanGivesNan) {
  MethodCase c = plainMethod(64, 64, 1);
  FilledCache run = makeRun(c, mlir::kvq::hostCpuLevel(), 40, 1, Data::random, 17);
  ASSERT_TRUE(run.kernels);
  run.inputs.q[3] = std::nanf("");
  Cache::Attention got =
      run.cache->decode(*run.kernels, Rows(c.method.attention.rows, run.inputs.q), {40}, 1024);
  EXPECT_TRUE(std::isnan(got.out[0]));
  EXPECT_FALSE(std::isnan(got.out[64])) << "the other head is untouched";
}

/// What the target does not serve is refused with one diagnostic that names the target, and nothing
/// is built.
TEST(Refusal, OneDiagnosticNamesTheTarget) {
  struct {
    const char *what;
    void (*change)(CacheMethod &);
  } cases[] = {
      {"multiple of 32", [](CacheMethod &m) { m.key.record.dim = 80; }},
      {"got 1", [](CacheMethod &m) { m.key.record.bits = 1; }},
      {"got 3", [](CacheMethod &m) { m.value.record.bits = 3; }},
      {"norm form", [](CacheMethod &m) { m.value.record.form = ParameterForm::norm; }},
      {"per channel", [](CacheMethod &m) { m.key.record.axis = ParameterAxis::channel; }},
      {"outer scale", [](CacheMethod &m) { m.key.record.outer = OuterScale::token; }},
      {"nibble", [](CacheMethod &m) { m.key.record.packing = CodePacking::nibble; }},
      {"windows, for K as for V, got f32",
       [](CacheMethod &m) { m.sink = 4, m.key.rows = m.value.rows = ElementType::f32; }},
      {"1 to 64", [](CacheMethod &m) { m.q_heads = 65 * m.kv_heads; }},
      {"page", [](CacheMethod &m) { m.page = 24; }},
  };
  for (const auto &entry : cases) {
    SCOPED_TRACE(entry.what);
    MethodCase c = plainMethod(64, 64, 1);
    entry.change(c.method);
    mlir::MLIRContext context;
    std::vector<std::string> messages;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      messages.push_back(diagnostic.str());
      return mlir::success();
    });
    mlir::kvq::loadCodegenDialects(context);
    mlir::Location loc = mlir::UnknownLoc::get(&context);
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
    EXPECT_TRUE(mlir::failed(mlir::kvq::buildKernels(*module, loc, c.method)));
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_NE(messages[0].find("target cpu"), std::string::npos) << messages[0];
    EXPECT_NE(messages[0].find(entry.what), std::string::npos) << messages[0];
    EXPECT_TRUE(module->getBody()->empty());
  }
}

} // namespace
} // namespace kvq::test

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "calib/solvers/KeyMean.h"
#include "runtime/format/sha256.h"
#include "runtime/reference/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace kvq;

namespace {

constexpr const char *kTrace = KVQ_TEST_DATA "/smollm2-135m.trace.safetensors";

std::string temporary(const std::string &name) { return testing::TempDir() + "kvq_calib_" + name; }

/// Values of a 16-bit type, as the keys of a trace are.
std::vector<float> randomRows(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.5f, 2);
  std::vector<float> rows(static_cast<size_t>(count));
  for (float &x : rows)
    x = roundToElement(ElementType::bf16, normal(generator));
  return rows;
}

Calibration example() {
  Calibration calibration;
  calibration.model = "model", calibration.modelDigest = "digest";
  calibration.kvHeads = 2, calibration.headDim = 3;
  calibration.rope = R"({"theta":10000.0})";
  calibration.data = {{"text", "abc", 5}, {"other", "def", 7}};
  calibration.layers = {{4, {1, 2, 3, 4, 5, 6}}, {20, {-1, 0, 1, 2, 3, 0.5f}}};
  return calibration;
}

TEST(MeanObserver, EqualsThePlainMean) {
  const int64_t tokens = 777, heads = 3, dim = 20;
  const std::vector<float> rows = randomRows(tokens * heads * dim, 1);
  MeanObserver observer(heads, dim);
  ASSERT_EQ(observer.add(rows.data(), tokens), "");
  const std::vector<float> mean = observer.mean();
  ASSERT_EQ(mean.size(), size_t(heads * dim));
  for (int64_t i = 0; i < heads * dim; ++i) {
    double sum = 0;
    for (int64_t t = 0; t < tokens; ++t)
      sum += rows[size_t(t * heads * dim + i)];
    EXPECT_EQ(mean[size_t(i)], float(sum / tokens)) << i;
  }
}

TEST(MeanObserver, ShardsMergeToTheWhole) {
  const int64_t tokens = 500, heads = 2, dim = 8, row = heads * dim;
  const std::vector<float> rows = randomRows(tokens * row, 2);
  MeanObserver whole(heads, dim), left(heads, dim), right(heads, dim), empty(heads, dim);
  ASSERT_EQ(whole.add(rows.data(), tokens), "");
  ASSERT_EQ(left.add(rows.data(), 123), "");
  ASSERT_EQ(right.add(rows.data() + 123 * row, 1), "");
  ASSERT_EQ(right.add(rows.data() + 124 * row, tokens - 124), "");
  ASSERT_EQ(right.merge(left), "");
  ASSERT_EQ(right.merge(empty), "");
  EXPECT_EQ(right.tokens(), tokens);
  EXPECT_EQ(right.mean(), whole.mean());
  EXPECT_NE(right.merge(MeanObserver(dim, heads)), "");
}

TEST(MeanObserver, ShiftOfTheKeysShiftsTheMean) {
  const int64_t tokens = 64, dim = 4;
  std::vector<float> rows = randomRows(tokens * dim, 3);
  MeanObserver before(1, dim), after(1, dim);
  ASSERT_EQ(before.add(rows.data(), tokens), "");
  for (int64_t i = 0; i < tokens * dim; ++i)
    rows[size_t(i)] += float(i % dim) * 16;
  ASSERT_EQ(after.add(rows.data(), tokens), "");
  for (int64_t d = 0; d < dim; ++d)
    EXPECT_NEAR(after.mean()[size_t(d)], before.mean()[size_t(d)] + 16 * d, 1e-5);
}

TEST(MeanObserver, RefusesValuesThatAreNotFinite) {
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> rows(2 * 3 * 4, 1.0f);
    MeanObserver observer(3, 4);
    ASSERT_EQ(observer.add(rows.data(), 2), "");
    rows[1 * 12 + 2 * 4 + 3] = bad;
    const std::string error = observer.add(rows.data(), 2);
    EXPECT_EQ(error.find("token 3, head 2, channel 3: expected a finite value"), 0u) << error;
    EXPECT_EQ(observer.tokens(), 2);
    EXPECT_EQ(observer.mean()[11], 1);
  }
}

TEST(MeanObserver, NoTokensGiveZero) {
  EXPECT_EQ(MeanObserver(1, 2).mean(), (std::vector<float>{0, 0}));
}

TEST(KeyMean, EqualsThePlainMeanOfTheTrace) {
  Trace trace;
  ASSERT_EQ(openTrace(kTrace, trace), "");
  EXPECT_EQ(trace.tokens, 1024);
  EXPECT_EQ(trace.queries(), 256);
  ASSERT_EQ(trace.layers.size(), 2u);
  KeyMeanSolver solver;
  ASSERT_EQ(solver.add(trace), "");
  const Calibration calibration = solver.solve();
  ASSERT_EQ(calibration.layers.size(), 2u);
  EXPECT_EQ(calibration.layers[1].index, 20);
  EXPECT_EQ(calibration.tokens(), 1024);
  const int64_t row = trace.kvHeads * trace.headDim;
  std::vector<float> keys(size_t(trace.tokens * row));
  readElements(*trace.layers[1].k, 0, trace.tokens * row, keys.data());
  for (int64_t i = 0; i < row; ++i) {
    double sum = 0;
    for (int64_t t = 0; t < trace.tokens; ++t)
      sum += keys[size_t(t * row + i)];
    EXPECT_EQ(calibration.layers[1].keyMean[size_t(i)], float(sum / double(trace.tokens)));
  }
}

TEST(KeyMean, RefusesTheSameTraceTwiceAndAnotherModel) {
  Trace trace;
  ASSERT_EQ(openTrace(kTrace, trace), "");
  KeyMeanSolver solver;
  ASSERT_EQ(solver.add(trace), "");
  EXPECT_NE(solver.add(trace).find("added already"), std::string::npos);
  trace.digest = "another";
  trace.modelDigest = "another";
  EXPECT_EQ(solver.add(trace).find("model: expected"), 0u);
  trace.modelDigest = solver.solve().modelDigest;
  trace.layers.pop_back();
  EXPECT_EQ(solver.add(trace), "layers: expected 4, 20 as in the first trace, got 4");
}

TEST(CalibrationFile, RoundTrip) {
  const std::string path = temporary("round");
  ASSERT_EQ(writeCalibration(path, example()), "");
  Calibration read;
  ASSERT_EQ(readCalibration(path, read), "");
  EXPECT_EQ(read.method, "mean");
  EXPECT_EQ(read.model, "model");
  EXPECT_EQ(read.modelDigest, "digest");
  EXPECT_EQ(read.rope, R"({"theta":10000.0})");
  EXPECT_EQ(read.tokens(), 12);
  ASSERT_EQ(read.data.size(), 2u);
  EXPECT_EQ(read.data[1].text, "other");
  ASSERT_EQ(read.layers.size(), 2u);
  EXPECT_EQ(read.layers[1].index, 20);
  EXPECT_EQ(read.layers[1].keyMean, example().layers[1].keyMean);
}

TEST(CalibrationFile, WriterRefusesBadValues) {
  const std::string path = temporary("refused");
  std::remove(path.c_str());
  auto error = [&](auto change) {
    Calibration calibration = example();
    change(calibration);
    return writeCalibration(path, calibration);
  };
  EXPECT_EQ(error([](Calibration &c) { c.layers[1].keyMean[4] = NAN; }),
            "tensor 'layers.20.k.mean': head 1, channel 1: expected a finite value, got nan");
  EXPECT_EQ(error([](Calibration &c) { c.layers[0].keyMean.pop_back(); }),
            "tensor 'layers.4.k.mean': expected 6 values, got 5");
  EXPECT_NE(error([](Calibration &c) { c.layers.clear(); }), "");
  EXPECT_NE(error([](Calibration &c) { std::swap(c.layers[0], c.layers[1]); }), "");
  EXPECT_NE(error([](Calibration &c) { c.method = "other"; }), "");
  EXPECT_NE(error([](Calibration &c) { c.rope = "{"; }), "");
  Calibration read;
  EXPECT_NE(readCalibration(path, read), ""); // nothing was written
}

/// A calibration file with one tensor and a document in which `from` is replaced by `to`.
std::string readChanged(const std::vector<float> &values, const std::vector<int64_t> &shape,
                        const std::string &from = "", const std::string &to = "") {
  const std::vector<TensorView> tensors = {
      {"layers.0.k.mean", TensorType::f32, shape, {values.data(), values.size() * 4}}};
  std::string document =
      R"({"version":0,"method":"mean","model":{"name":"m","sha256":"s","kv_heads":1,"head_dim":2},)"
      R"("rope":{},"layers":[0],"data":[{"text":"t","sha256":"d","tokens":3}],"tokens":3,"sha256":")" +
      tensorDigest(tensors) + "\"}";
  if (const size_t at = document.find(from); !from.empty() && at != std::string::npos)
    document.replace(at, from.size(), to);
  const std::string path = temporary("changed");
  EXPECT_EQ(writeSafetensors(path, tensors, {{"kvq_calibration", document}}), "");
  Calibration read;
  const std::string error = readCalibration(path, read);
  const std::string prefix = "'" + path + "': ";
  return error.substr(error.find(prefix) == 0 ? prefix.size() : 0);
}

TEST(CalibrationFile, ReaderNamesWhatIsWrong) {
  EXPECT_EQ(readChanged({1, 2}, {1, 2}), "");
  EXPECT_EQ(readChanged({1, NAN}, {1, 2}),
            "tensor 'layers.0.k.mean': head 0, channel 1: expected a finite value, got nan");
  EXPECT_EQ(readChanged({1, 2}, {2, 1}),
            "tensor 'layers.0.k.mean': expected F32 [1, 2], got F32 [2, 1]");
  EXPECT_EQ(readChanged({1, 2}, {1, 2}, "\"version\":0", "\"version\":9"),
            "this kvq reads calibration version 0, the file has version 9");
  EXPECT_EQ(readChanged({1, 2}, {1, 2}, "\"tokens\":3,\"sha256\":\"", "\"tokens\":3,\"sha256\":\"0")
                .find("the tensors are damaged"),
            0u);
  EXPECT_EQ(readChanged({1, 2}, {1, 2}, "\"layers\":[0]", "\"layers\":[0,1]"),
            "tensor 'layers.1.k.mean' is missing");
  EXPECT_EQ(readChanged({1, 2}, {1, 2}, "\"layers\":[0]", "\"layers\":[]"),
            "expected 0 tensors, one for each layer, got 1");
}

TEST(CalibrationFile, RefusesOtherFiles) {
  Calibration read;
  EXPECT_NE(readCalibration(kTrace, read).find("without the metadata key"), std::string::npos);
  EXPECT_NE(readCalibration("/nonexistent", read), "");
}

} // namespace

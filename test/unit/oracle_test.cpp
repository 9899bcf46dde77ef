// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle itself: steps and the writer's rule, against values
// worked out by hand or by an independent model.
#include "kvq/published.h"
#include "runtime/reference/Append.h"
#include "runtime/reference/Attention.h"
#include "runtime/reference/Rotation.h"
#include "test/support/Records.h"
#include "test/support/TestMethods.h"

#include <gtest/gtest.h>

namespace kvq::test {
namespace {

QuantizedRow quantize(const SideMethod &side, const std::vector<float> &row) {
  const TestMethod method(side, side);
  return quantizeRow(side, method.constants(), {}, row.data());
}

SideMethod tinySide(int bits, ParameterForm form, ElementType element = ElementType::f32) {
  return plainSide(side(4, bits, 0, form, element));
}

std::vector<uint8_t> codesOf(const SideMethod &side, const std::vector<float> &row) {
  return quantize(side, row).codes;
}

using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

TEST(Steps, CenterThenRotateRoundsEachResult) {
  TestMethod test(tinySide(8, ParameterForm::min), tinySide(8, ParameterForm::min));
  const int mean = test.add("mean", {4}, {1, 1, 1, 1});
  test.method.key.steps = {centerStep(mean, ElementType::bf16),
                           rotateStep({hadamardFactor(4)}, ElementType::f16)};
  auto rotated = [&](const Floats &row) {
    return quantizeRow(test.method.key, test.constants(), {}, row.data()).rotated;
  };
  // Centred: 1, 0x1.01p-1 (0.5 in bf16), -2, 0.
  EXPECT_EQ(rotated({2, 1 + 0x1.01p-1f, -1, 1}), (Floats{-0.25f, -0.75f, 1.75f, 1.25f}));
  // Centred: 2048, 1, 0, 0; the sum is 1024.5, halfway in f16.
  EXPECT_EQ(rotated({2049, 2, 1, 1}), (Floats{1024, 1023.5f, 1024, 1023.5f}));
}

TEST(Steps, DenseRotationsAndTheirInverses) {
  TestMethod test(tinySide(8, ParameterForm::min), tinySide(8, ParameterForm::min));
  std::vector<float> shift(16); // channel i moves to i + 1
  for (int i = 0; i < 4; ++i)
    shift[4 * i + (i + 1) % 4] = 1;
  const int matrix = test.add("shift", {4, 4}, shift);
  Floats row = {1, 2, 3, 4};
  rotateRow({denseFactor(matrix)}, test.constants(), {}, row);
  EXPECT_EQ(row, (Floats{4, 1, 2, 3}));
  rotateRow({denseFactor(matrix, true), denseFactor(matrix, true)}, test.constants(), {}, row);
  EXPECT_EQ(row, (Floats{2, 3, 4, 1}));
  unrotateRow({denseFactor(matrix), denseFactor(matrix, true)}, test.constants(), {}, row);
  EXPECT_EQ(row, (Floats{2, 3, 4, 1}));
}

TEST(Steps, ConstantsAreThoseOfTheLayerAndHead) {
  TestMethod test(tinySide(8, ParameterForm::min), tinySide(8, ParameterForm::min), 2, 2);
  test.addMean(4, 3); // so that the offset of the next one is not 0
  Floats means;
  for (int i = 0; i < 16; ++i)
    means.push_back(float(i));
  test.method.key.steps = {centerStep(test.add("mean", {4}, means))};
  const float row[4] = {};
  EXPECT_EQ(quantizeRow(test.method.key, test.constants(), {1, 0}, row).rotated,
            (Floats{-8, -9, -10, -11}));
  EXPECT_EQ(quantizeRow(test.method.key, test.constants(), {0, 1}, row).rotated,
            (Floats{-4, -5, -6, -7}));
}

TEST(Steps, HadamardIsItsOwnInverseAndSylvester) {
  Gauss random(5);
  TestMethod test(plainSide(side(96)), plainSide(side(96)));
  std::vector<double> row(96), start;
  for (double &x : row)
    x = random.next();
  start = row;
  const RotationFactor blocks = hadamardFactor(32, true);
  rotateRow({blocks}, test.constants(), {}, row);
  for (int i = 0; i < 96; ++i) {
    double sum = 0;
    for (int j = 0; j < 32; ++j)
      sum += start[i / 32 * 32 + j] * (__builtin_popcount(i % 32 & j) % 2 ? -1 : 1);
    EXPECT_NEAR(row[i], sum / std::sqrt(32.0), 1e-14);
  }
  rotateRow({blocks}, test.constants(), {}, row);
  EXPECT_LT(relativeError(row, start), 1e-15);
}

TEST(Steps, NonFiniteNumbersAfterTheLastStep) {
  SideMethod side = tinySide(2, ParameterForm::min, ElementType::f16);
  side.rows = ElementType::bf16;
  EXPECT_EQ(quantize(side, {NAN, INFINITY, -INFINITY, 1}).rotated,
            (Floats{0, 0x1.fep127f, -0x1.fep127f, 1}));
  side.steps = {rotateStep({hadamardFactor(4)}, ElementType::f16)};
  EXPECT_EQ(quantize(side, {65504, 65504, 65504, 65504}).rotated, (Floats{65504, 0, 0, 0}));
  EXPECT_EQ(quantize(side, {INFINITY, 0, 0, 0}).rotated, Floats(4, 65504));
  EXPECT_EQ(quantize(side, {INFINITY, INFINITY, 0, 0}).rotated, (Floats{65504, 0, 65504, 0}));
}

TEST(Steps, Clips) {
  SideMethod side = plainSide(kvq::test::side(8, 2));
  const Floats row = {1, -2, 3, -4, 5, -6, 7, -8};
  auto clipped = [&](const Step &step) {
    side.steps = {step};
    return quantize(side, row).clipped;
  };
  // int(0.7 * 8) = 5: the sixth smallest magnitude
  EXPECT_EQ(clipped(clipStep(Step::Clip::order_statistic, 0.7)),
            (Floats{1, -2, 3, -4, 5, -6, 6, -6}));
  EXPECT_EQ(clipped(clipStep(Step::Clip::order_statistic, 1)), row);
  EXPECT_EQ(clipped(clipStep(Step::Clip::order_statistic, 1e-9)),
            (Floats{1, -1, 1, -1, 1, -1, 1, -1}));
  EXPECT_EQ(clipped(clipStep(Step::Clip::ratio, 0.5)), (Floats{1, -2, 3, -4, 3.5f, -4, 3.5f, -4}));
  EXPECT_EQ(clipped(clipStep(Step::Clip::constant, 2.5)),
            (Floats{1, -2, 2.5f, -2.5f, 2.5f, -2.5f, 2.5f, -2.5f}));
  side.steps = {clipStep(Step::Clip::constant, 4), clipStep(Step::Clip::ratio, 0.5)};
  EXPECT_EQ(quantize(side, row).clipped, (Floats{1, -2, 2, -2, 2, -2, 2, -2}));
}

TEST(Steps, ClipPerGroupSeesOnlyItsGroup) {
  SideMethod side = plainSide(kvq::test::side(64, 2, 32));
  Floats row(64);
  for (int i = 0; i < 64; ++i)
    row[i] = float(i + 1);
  side.steps = {clipStep(Step::Clip::order_statistic, 0.5, true)};
  const Floats clipped = quantize(side, row).clipped;
  EXPECT_EQ(clipped[31], 17);
  EXPECT_EQ(clipped[63], 49);
  side.steps[0].per_group = false;
  EXPECT_EQ(quantize(side, row).clipped[31], 32);
  EXPECT_EQ(quantize(side, row).clipped[63], 33);
}

//===----------------------------------------------------------------------===//
// The writer's rule, worked out by hand
//===----------------------------------------------------------------------===//

TEST(Writer, MinForm) {
  const SideMethod two = tinySide(2, ParameterForm::min), eight = tinySide(8, ParameterForm::min);
  const QuantizedRow row = quantize(two, {-1, 0, 1, 2});
  EXPECT_EQ(row.codes, (Bytes{0, 1, 2, 3}));
  EXPECT_EQ(row.scale, Floats{1});
  EXPECT_EQ(row.zero, Floats{-1});
  const QuantizedRow wide = quantize(eight, {0, 255, 100, 5});
  EXPECT_EQ(wide.codes, (Bytes{uint8_t(-128), 127, uint8_t(-28), uint8_t(-123)}));
  EXPECT_EQ(wide.scale, Floats{1});
  EXPECT_EQ(wide.zero, Floats{128});
  for (const SideMethod &side : {two, eight}) {
    const QuantizedRow constant = quantize(side, Floats(4, 7));
    EXPECT_EQ(constant.codes, Bytes(4, 0));
    EXPECT_EQ(constant.scaleBits, std::vector<uint32_t>{0});
    EXPECT_EQ(constant.zero, Floats{7});
  }
}

TEST(Writer, ZeroForm) {
  const SideMethod two = tinySide(2, ParameterForm::zero), eight = tinySide(8, ParameterForm::zero);
  const QuantizedRow row = quantize(two, {-1, 0, 1, 2});
  EXPECT_EQ(row.codes, (Bytes{0, 1, 2, 3}));
  EXPECT_EQ(row.scale, Floats{1});
  EXPECT_EQ(row.zero, Floats{1});
  const QuantizedRow wide = quantize(eight, {0, 255, 100, 5});
  EXPECT_EQ(wide.codes, (Bytes{uint8_t(-128), 127, uint8_t(-28), uint8_t(-123)}));
  EXPECT_EQ(wide.zero, Floats{-128});
}

TEST(Writer, ZeroFormOfRowsItCannotHold) {
  const SideMethod side = tinySide(2, ParameterForm::zero, ElementType::f16);
  for (float value : {5.0f, -5.0f, 0.0f, 1e9f}) {
    const QuantizedRow row = quantize(side, Floats(4, value));
    EXPECT_EQ(row.codes, Bytes(4, 0));
    EXPECT_EQ(row.scale, Floats{std::min(std::fabs(value), 65504.0f)});
    EXPECT_EQ(row.zero, Floats{value > 0 ? -1.0f : value < 0 ? 1.0f : 0.0f});
  }
  // The range is 1.5 about 100000, so zero would be -199999; the middle is beyond f16 too.
  EXPECT_EQ(quantize(side, {100000, 100001.5f, 100000, 100000}).scale, Floats{65504});
  // In f32 the same row is held.
  EXPECT_EQ(codesOf(tinySide(2, ParameterForm::zero), {100000, 100001.5f, 100000, 100000}),
            (Bytes{0, 3, 0, 0}));
}

TEST(Writer, ZeroFormOfConstantRowsItCanHold) {
  const QuantizedRow row = quantize(tinySide(2, ParameterForm::zero), Floats(4, 5));
  EXPECT_EQ(row.scale, Floats{1e-8f / 3});
  EXPECT_EQ(row.zero, Floats{-5 / (1e-8f / 3)});
  EXPECT_EQ(row.codes, Bytes(4, 0));
}

TEST(Writer, StepsTooSmallForTheParameterType) {
  // The step is 3e-10, which is 0 in f16; it is the stored step that decides, whatever the source.
  for (RoundRule::Source source : {RoundRule::Source::stored, RoundRule::Source::exact})
    for (int bits : {2, 8}) {
      SideMethod side = tinySide(bits, ParameterForm::min, ElementType::f16);
      side.round.source = source;
      const QuantizedRow row = quantize(side, {0x1p-23f, 0x1p-23f + 1e-9f, 0x1p-23f, 0x1p-23f});
      EXPECT_EQ(row.codes, Bytes(4, 0));
      EXPECT_EQ(row.scale, Floats{0});
      EXPECT_EQ(row.zero, Floats{0x1p-23f});
      side.record.form = ParameterForm::zero;
      const QuantizedRow small = quantize(side, Floats(4, 0x1p-20f));
      EXPECT_EQ(small.codes, Bytes(4, 0));
      EXPECT_EQ(small.scale, Floats{0x1p-20f});
      EXPECT_EQ(small.zero, Floats{-1});
      side.record.form = ParameterForm::sym;
      EXPECT_EQ(quantize(side, {0, 1e-9f, -1e-9f, 0}).codes, Bytes(4, 0));
    }
}

TEST(Writer, SymForm) {
  EXPECT_EQ(codesOf(tinySide(2, ParameterForm::sym), {-1.5f, -0.5f, 0.5f, 1.5f}),
            (Bytes{0, 1, 2, 3}));
  EXPECT_EQ(quantize(tinySide(2, ParameterForm::sym), {3, 0.5f, -0.5f, 0}).scale, Floats{2});
  const QuantizedRow wide = quantize(tinySide(8, ParameterForm::sym), {-127, 127, 1, 0.4f});
  EXPECT_EQ(wide.codes, (Bytes{uint8_t(-127), 127, 1, 0}));
  EXPECT_EQ(wide.scale, Floats{1});
  EXPECT_TRUE(wide.zero.empty());
  EXPECT_EQ(quantize(tinySide(4, ParameterForm::sym), Floats(4, 0)).codes, Bytes(4, 0));
}

TEST(Writer, Ties) {
  SideMethod side = tinySide(2, ParameterForm::min);
  EXPECT_EQ(codesOf(side, {0, 0.5f, 1.5f, 3}), (Bytes{0, 1, 2, 3}));
  EXPECT_EQ(codesOf(side, {0, 2.5f, 1.5f, 3}), (Bytes{0, 3, 2, 3}));
  side.round.tie = RoundRule::Tie::half_even;
  EXPECT_EQ(codesOf(side, {0, 0.5f, 1.5f, 3}), (Bytes{0, 0, 2, 3}));
  EXPECT_EQ(codesOf(side, {0, 2.5f, 1.5f, 3}), (Bytes{0, 2, 2, 3}));
}

TEST(Writer, StoredAndExactParameters) {
  const Floats row = {0, 1.503f, 2, 3.01f}; // step 1.00333, stored as 1
  for (ParameterForm form : {ParameterForm::min, ParameterForm::zero}) {
    SideMethod side = tinySide(2, form, ElementType::bf16);
    EXPECT_EQ(codesOf(side, row), (Bytes{0, 2, 2, 3}));
    side.round.source = RoundRule::Source::exact;
    EXPECT_EQ(codesOf(side, row), (Bytes{0, 1, 2, 3}));
    EXPECT_EQ(quantize(side, row).scale, Floats{1});
  }
}

TEST(Writer, CodesStayInRangeWhereTheStoredMinimumIsFarOff) {
  SideMethod side = tinySide(2, ParameterForm::min, ElementType::bf16);
  const Floats above = {257, 257.3f, 257.1f, 257.2f}; // minimum stored as 256, ten steps below
  const Floats below = {259, 259.3f, 259.1f, 259.2f}; // minimum stored as 260
  EXPECT_EQ(codesOf(side, above), Bytes(4, 3));
  EXPECT_EQ(codesOf(side, below), Bytes(4, 0));
  side.round.source = RoundRule::Source::exact;
  EXPECT_EQ(codesOf(side, above), (Bytes{0, 3, 1, 2}));
  EXPECT_EQ(codesOf(side, below), (Bytes{0, 3, 1, 2}));
}

TEST(Writer, SignOfZeroLeavesNoTrace) {
  for (ParameterForm form : {ParameterForm::min, ParameterForm::zero, ParameterForm::sym})
    for (const Floats &row : {Floats{0, 0, 0, 0}, Floats{0, 1, 0, 2}, Floats{0, -1, 0, -2}}) {
      Floats negative = row;
      for (float &x : negative)
        x = x == 0 ? -0.0f : x;
      const SideMethod side = tinySide(2, form);
      const QuantizedRow a = quantize(side, row), b = quantize(side, negative);
      EXPECT_EQ(a.codes, b.codes);
      EXPECT_EQ(a.scaleBits, b.scaleBits);
      EXPECT_EQ(a.zeroBits, b.zeroBits);
      for (const std::vector<uint32_t> &bits : {a.scaleBits, a.zeroBits})
        EXPECT_EQ(std::count(bits.begin(), bits.end(), 0x80000000u), 0);
    }
}

TEST(Writer, GroupsHaveTheirOwnParameters) {
  Floats row(64, 1);
  row[0] = 0, row[1] = 3, row[32] = 10, row[33] = 16;
  row[63] = 14;
  for (int i = 34; i < 63; ++i)
    row[i] = 12;
  const QuantizedRow out = quantize(plainSide(side(64, 2, 32)), row);
  EXPECT_EQ(out.scale, (Floats{1, 2}));
  EXPECT_EQ(out.zero, (Floats{0, 10}));
  EXPECT_EQ(out.codes[1], 3);
  EXPECT_EQ(out.codes[63], 2);
}

TEST(Writer, RefusesByName) {
  SideMethod side = plainSide(kvq::test::side(128));
  EXPECT_EQ(refuseSide(side), "");
  side.record.form = ParameterForm::norm;
  EXPECT_EQ(refuseSide(side), "expected parameters of the form min, zero or sym, got norm");
  side.record.form = ParameterForm::min;
  side.record.axis = ParameterAxis::channel;
  EXPECT_EQ(refuseSide(side), "expected parameters along the axis token, got channel");
  side.record.axis = ParameterAxis::token;
  side.record.outer = OuterScale::token;
  EXPECT_EQ(refuseSide(side), "expected no outer scale, got one along the axis token");
}

//===----------------------------------------------------------------------===//
// Published values
//===----------------------------------------------------------------------===//

TEST(Oscar, GoldenRow) {
  struct Golden {
    double ratio;
    float threshold, scale;
    std::vector<int> histogram;
    Bytes first;
    int sum;
  };
  Floats row(128);
  Lcg random(1);
  for (float &x : row) {
    const double u = random.uniform() * 2 - 1;
    x = float(4 * u * u * u);
  }
  EXPECT_EQ(row[0], -0.0144903455f);
  EXPECT_EQ(row[1], 2.6641517e-05f);
  EXPECT_EQ(row[2], 0.10449483f);
  for (const Golden &golden : {Golden{0.96,
                                      3.56835508f,
                                      2.37890339f,
                                      {10, 50, 60, 8},
                                      {0x65, 0x9a, 0xaa, 0x55, 0xaa, 0x56, 0xa2, 0xd4},
                                      4169},
                               Golden{0.92,
                                      3.17339826f,
                                      2.11559892f,
                                      {12, 48, 57, 11},
                                      {0x65, 0x8a, 0xaa, 0x55, 0xba, 0x56, 0xa2, 0xd4},
                                      4281}}) {
    SideMethod side = plainSide(kvq::test::side(128, 2, 0, ParameterForm::zero, ElementType::f32));
    side.steps = {clipStep(Step::Clip::order_statistic, golden.ratio)};
    side.round.source = RoundRule::Source::exact;
    const QuantizedRow out = quantize(side, row);
    EXPECT_EQ(*std::max_element(out.clipped.begin(), out.clipped.end()), golden.threshold);
    EXPECT_EQ(out.scale, Floats{golden.scale});
    EXPECT_EQ(out.zero, Floats{1.5f});
    std::vector<int> histogram(4);
    for (uint8_t code : out.codes)
      ++histogram[code];
    EXPECT_EQ(histogram, golden.histogram);
    const Field field = publishedCodes(PublishedOrder::oscar, 'k', 128, 2, 1);
    Bytes packed(field.size);
    for (int c = 0; c < 128; ++c)
      writeBits(packed.data(), bitAddress(field, 0, c), 2, out.codes[c]);
    EXPECT_EQ(Bytes(packed.begin(), packed.begin() + 8), golden.first);
    int sum = 0;
    for (uint8_t byte : packed)
      sum += byte;
    EXPECT_EQ(sum, golden.sum);
  }
}

TEST(Oscar, ClippedRowsDegenerateToTheSymmetricGrid) {
  // A row degenerates when both tails reach the threshold: 1 - 2^-5 of rows at index 122 of 128, 1
  // - 2^-10 at 117.
  const uint64_t seed = 11;
  Gauss random(seed);
  const int rows = 4000;
  SideMethod side = plainSide(kvq::test::side(128, 2, 0, ParameterForm::zero, ElementType::f32));
  int degenerate[2] = {};
  for (int i = 0; i < rows; ++i) {
    Floats row(128);
    for (float &x : row)
      x = float(random.next());
    for (int value = 0; value < 2; ++value) {
      side.steps = {clipStep(Step::Clip::order_statistic, value ? 0.92 : 0.96)};
      degenerate[value] += quantize(side, row).zero[0] == 1.5f;
    }
  }
  EXPECT_NEAR(degenerate[0] / double(rows), 1 - 0x1p-5, 0.012) << "seed " << seed; // 4 sigma
  EXPECT_NEAR(degenerate[1] / double(rows), 1 - 0x1p-10, 0.002) << "seed " << seed;
}

} // namespace
} // namespace kvq::test

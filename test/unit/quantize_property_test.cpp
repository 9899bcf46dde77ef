// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What holds for every row, form, width, group, parameter type, tie and source; and tokens in
// pages.
#include "runtime/reference/Append.h"
#include "runtime/reference/Attention.h"
#include "runtime/reference/convert.h"
#include "test/support/Records.h"
#include "test/support/TestMethods.h"

#include <gtest/gtest.h>

namespace kvq::test {
namespace {

constexpr int kDim = 64;
constexpr uint64_t kSeed = 31;

/// Every supported rule of rounding for rows of kDim channels, without steps.
std::vector<SideMethod> allSides() {
  std::vector<SideMethod> out;
  for (ParameterForm form : {ParameterForm::min, ParameterForm::zero, ParameterForm::sym})
    for (int bits : {1, 2, 3, 4, 8})
      for (int group : {0, 32})
        for (ElementType element : {ElementType::f16, ElementType::bf16, ElementType::f32})
          for (RoundRule::Tie tie : {RoundRule::Tie::half_up, RoundRule::Tie::half_even})
            for (RoundRule::Source source : {RoundRule::Source::stored, RoundRule::Source::exact}) {
              out.push_back(plainSide(side(kDim, bits, group, form, element)));
              out.back().round = {tie, source};
            }
  return out;
}

std::string describe(const SideMethod &side) {
  const RecordSide &record = side.record;
  const char *const forms[] = {"min", "zero", "sym"};
  return std::string(forms[int(record.form)]) + " b" + std::to_string(record.bits) + " g" +
         std::to_string(record.group) + " " + elementName(record.element) +
         (side.round.tie == RoundRule::Tie::half_up ? " half_up" : " half_even") +
         (side.round.source == RoundRule::Source::stored ? " stored" : " exact") + ", seed " +
         std::to_string(kSeed);
}

/// Rows that arithmetic stumbles over first.
std::vector<std::vector<float>> awkwardRows() {
  const std::vector<std::vector<float>> patterns = {
      {0},
      {-0.0f},
      {-0.0f, 0},
      {1},
      {-3.25e4f},
      {1e-40f},
      {0, 1e-45f},
      {1e-40f, -3e-41f, 2e-39f},
      {1e-9f, 2e-9f},
      {FLT_MAX},
      {FLT_MAX, -FLT_MAX},
      {FLT_MAX, -FLT_MAX, 0, 1},
      {3e38f, 2.9e38f},
      {65504, -65504, 65520},
      {1e6f, 1e6f + 1},
      {1e5f, 1, 1, 1},
      {NAN},
      {NAN, 1, 2},
      {INFINITY},
      {INFINITY, -INFINITY},
      {INFINITY, NAN, -1, 0},
      {0, 0.5f, 1, 1.5f, 2, 2.5f, 3},
  };
  std::vector<std::vector<float>> rows;
  for (const std::vector<float> &pattern : patterns) {
    rows.emplace_back();
    for (int i = 0; i < kDim; ++i)
      rows.back().push_back(pattern[i % pattern.size()]);
  }
  return rows;
}

std::vector<std::vector<float>> usualRows() {
  std::vector<std::vector<float>> rows;
  for (const DataCase &data : dataCases(kSeed)) {
    const DataRows made = makeRows(data, 2, 1, 12, kDim, kDim);
    for (const std::vector<float> *all : {&made.keys, &made.values})
      for (size_t at = 0; at < all->size(); at += kDim)
        rows.emplace_back(all->begin() + at, all->begin() + at + kDim);
  }
  return rows;
}

QuantizedRow quantize(const SideMethod &side, const std::vector<float> &row) {
  const TestMethod method(side, side);
  return quantizeRow(side, method.constants(), {}, row.data());
}

/// Least and largest code of a side.
std::pair<int, int> codeRange(const RecordSide &record) {
  const int top = (1 << record.bits) - 1;
  if (record.bits == 8)
    return {record.form == ParameterForm::sym ? -127 : -128, 127};
  return {0, top};
}

int codeAt(const RecordSide &record, const QuantizedRow &row, int channel) {
  return record.bits == 8 ? int8_t(row.codes[channel]) : row.codes[channel];
}

TEST(Property, CodesAndParametersAreAlwaysLegal) {
  std::vector<std::vector<float>> rows = awkwardRows(), usual = usualRows();
  rows.insert(rows.end(), usual.begin(), usual.end());
  for (const SideMethod &side : allSides())
    for (size_t i = 0; i < rows.size(); ++i) {
      const QuantizedRow out = quantize(side, rows[i]);
      const auto [least, largest] = codeRange(side.record);
      const int groups = layout_detail::groupsOf(side.record);
      ASSERT_EQ(out.codes.size(), size_t(kDim));
      ASSERT_EQ(out.scale.size(), size_t(groups));
      ASSERT_EQ(out.zero.size(), side.record.form == ParameterForm::sym ? 0 : size_t(groups));
      for (int c = 0; c < kDim; ++c) {
        ASSERT_GE(codeAt(side.record, out, c), least) << describe(side) << " row " << i;
        ASSERT_LE(codeAt(side.record, out, c), largest) << describe(side) << " row " << i;
      }
      for (float scale : out.scale)
        ASSERT_TRUE(std::isfinite(scale) && !std::signbit(scale)) << describe(side) << " row " << i;
      for (float zero : out.zero)
        ASSERT_TRUE(std::isfinite(zero)) << describe(side) << " row " << i;
    }
}

TEST(Property, MinFormErrsByHalfAStep) {
  for (const SideMethod &side : allSides()) {
    if (side.record.form != ParameterForm::min)
      continue;
    // Relative error of a stored parameter, and of the fp32 arithmetic.
    const double unit = side.record.element == ElementType::f16    ? 0x1p-11
                        : side.record.element == ElementType::bf16 ? 0x1p-8
                                                                   : 0x1p-24;
    const int group = side.record.group ? side.record.group : kDim;
    const int top = (1 << side.record.bits) - 1, shift = side.record.bits == 8 ? 128 : 0;
    for (const std::vector<float> &row : usualRows()) {
      const QuantizedRow out = quantize(side, row);
      for (int c = 0; c < kDim; ++c) {
        const double s = out.scale[c / group], m = out.zero[c / group];
        const double value = s * codeAt(side.record, out, c) + m;
        const double slack = (top * s + std::fabs(m - shift * s) + std::fabs(m)) * (unit + 0x1p-21);
        ASSERT_LE(std::fabs(value - row[c]), s / 2 + slack + 0x1p-24) << describe(side);
      }
    }
  }
}

TEST(Property, EightBitsBeatTwo) {
  for (ParameterForm form : {ParameterForm::min, ParameterForm::zero, ParameterForm::sym}) {
    double error[2] = {}, norm = 0;
    for (const std::vector<float> &row : usualRows())
      for (int wide : {0, 1}) {
        const RecordSide record = side(kDim, wide ? 8 : 2, 32, form, ElementType::f32);
        TestMethod test(plainSide(record), plainSide(record));
        const RecordLayout layout = buildRecord(test.method.record());
        std::vector<uint8_t> page(layout.stride);
        appendToken(test.method, layout, test.constants(), {}, page.data(), 3, row.data(),
                    row.data());
        const std::vector<double> back =
            dequantize(test.method, layout, test.constants(), {}, page.data(), 'v', 3);
        for (int c = 0; c < kDim; ++c) {
          error[wide] += (back[c] - row[c]) * (back[c] - row[c]);
          norm += wide ? 0 : double(row[c]) * row[c];
        }
      }
    EXPECT_LT(std::sqrt(error[1] / norm), 0.01);
    EXPECT_GT(std::sqrt(error[0] / norm), 0.1); // the step is 85 times as wide
    EXPECT_GT(error[0] / error[1], 40 * 40);
  }
}

//===----------------------------------------------------------------------===//
// Pages
//===----------------------------------------------------------------------===//

/// K of 96 channels with a mean, a dense rotation, a clip and groups; V of 64 with a Hadamard
/// rotation, 3 bits.
struct PagedMethod : TestMethod {
  RecordLayout layout;
  DataRows rows;

  PagedMethod()
      : TestMethod(plainSide(side(96, 2, 32, ParameterForm::zero)),
                   plainSide(side(64, 3, 0, ParameterForm::min, ElementType::bf16)), 2, 2) {
    method.page = 32;
    const int mean = addMean(96, 4), rotation = addRotation(96, 6);
    const int valueMean = addMean(64, 7);
    method.key.steps = {centerStep(mean, ElementType::bf16), rotateStep({denseFactor(rotation)}),
                        clipStep(Step::Clip::order_statistic, 0.9, true)};
    method.value.steps = {rotateStep({hadamardFactor(64)}, ElementType::f16),
                          centerStep(valueMean)};
    layout = buildRecord(method.record());
    rows = makeRows({DataKind::heavy, 1.5, kSeed}, 2, 1, 32, 96, 64);
  }

  void append(std::vector<uint8_t> &page, int position, RowPlace place = {1, 1}) const {
    appendToken(method, layout, constants(), place, page.data(), position,
                &rows.keys[96 * position], &rows.values[64 * position]);
  }
};

TEST(Page, OneByOneInAnyOrderEqualsBulk) {
  const PagedMethod test;
  ASSERT_EQ(verifyMethod(test.method), "");
  std::vector<uint8_t> bulk(test.layout.stride), single(test.layout.stride, 0xff);
  std::fill(single.begin() + test.layout.bytes, single.end(), 0);
  // In bulk: first all rows, then element by element, kind by kind.
  for (char name : {'v', 'k'}) {
    const SideMethod &side = name == 'k' ? test.method.key : test.method.value;
    const std::vector<float> &all = name == 'k' ? test.rows.keys : test.rows.values;
    for (int token = 0; token < 32; ++token) {
      const int dim = side.record.dim, group = dim / layout_detail::groupsOf(side.record);
      const QuantizedRow row = quantizeRow(side, test.constants(), {1, 1}, &all[dim * token]);
      for (int c = 0; c < dim; ++c) {
        putElement(test.layout, bulk.data(), name, FieldKind::zero, token, c,
                   row.zeroBits[c / group]);
        putElement(test.layout, bulk.data(), name, FieldKind::scale, token, c,
                   row.scaleBits[c / group]);
        putElement(test.layout, bulk.data(), name, FieldKind::code, token, c, row.codes[c]);
      }
    }
  }
  for (int i = 0; i < 32; ++i)
    test.append(single, i * 11 % 32);
  EXPECT_EQ(single, bulk);
}

TEST(Page, AnAppendTouchesNoOtherToken) {
  const PagedMethod test;
  std::vector<uint8_t> page(test.layout.stride, 0xa5);
  test.append(page, 7);
  int changed = 0;
  for (int token = 0; token < 32; ++token)
    for (char name : {'k', 'v'}) {
      std::vector<uint8_t> stale(test.layout.stride, 0xa5);
      const TokenBits now = getToken(test.layout, page.data(), name, token);
      const TokenBits before = getToken(test.layout, stale.data(), name, token);
      const bool same = now.codes == before.codes && now.scale == before.scale;
      EXPECT_EQ(same, token != 7) << "token " << token;
      changed += !same;
    }
  EXPECT_EQ(changed, 2);
}

TEST(Page, ConstantsOfAnotherHeadGiveOtherBytes) {
  const PagedMethod test;
  std::vector<uint8_t> a(test.layout.stride), b = a;
  test.append(a, 0, {1, 1});
  test.append(b, 0, {0, 1});
  EXPECT_NE(a, b);
}

TEST(Page, DequantizeUndoesTheStepsInReverse) {
  for (bool rotateFirst : {false, true}) {
    SideMethod side = plainSide(kvq::test::side(kDim, 8, 32, ParameterForm::min, ElementType::f32));
    TestMethod test(side, side, 1, 2);
    const int mean = test.addMean(kDim, 8), rotation = test.addRotation(kDim, 9);
    std::vector<Step> steps = {centerStep(mean),
                               rotateStep({denseFactor(rotation, true), hadamardFactor(32, true)})};
    if (rotateFirst)
      std::swap(steps[0], steps[1]);
    test.method.key.steps = test.method.value.steps = steps;
    const RecordLayout layout = buildRecord(test.method.record());
    std::vector<uint8_t> page(layout.stride);
    const DataRows rows = makeRows({DataKind::random, 1.5, kSeed}, 1, 1, 1, kDim, kDim);
    appendToken(test.method, layout, test.constants(), {1, 0}, page.data(), 63, rows.keys.data(),
                rows.values.data());
    const std::vector<double> expected(rows.values.begin(), rows.values.end());
    const std::vector<double> model =
        dequantize(test.method, layout, test.constants(), {1, 0}, page.data(), 'v', 63);
    EXPECT_LT(relativeError(model, expected), 0.01);
    const QuantizedRow row =
        quantizeRow(test.method.value, test.constants(), {1, 0}, rows.values.data());
    const std::vector<double> rotated = dequantize(test.method, layout, test.constants(), {1, 0},
                                                   page.data(), 'v', 63, RowBasis::rotated);
    for (int c = 0; c < kDim; ++c)
      EXPECT_LE(std::fabs(rotated[c] - row.rotated[c]), row.scale[c / 32] * 0.5001);
    EXPECT_GT(relativeError(rotated, expected), 0.5);
  }
}

TEST(Page, EveryFormDequantizesAsDefined) {
  for (const SideMethod &side : allSides()) {
    const TestMethod test(side, side);
    const RecordLayout layout = buildRecord(test.method.record());
    std::vector<uint8_t> page(layout.stride);
    const std::vector<float> row = usualRows().back();
    appendToken(test.method, layout, test.constants(), {}, page.data(), 5, row.data(), row.data());
    const QuantizedRow out = quantize(side, row);
    const int group = side.record.group ? side.record.group : kDim;
    const double mid = side.record.bits == 8 ? 0 : ((1 << side.record.bits) - 1) / 2.0;
    for (char name : {'k', 'v'}) {
      const std::vector<double> back =
          dequantize(test.method, layout, test.constants(), {}, page.data(), name, 5);
      for (int c = 0; c < kDim; ++c) {
        const double s = out.scale[c / group], code = codeAt(side.record, out, c);
        const double z = out.zero.empty() ? 0 : out.zero[c / group];
        const double expected = side.record.form == ParameterForm::min    ? code * s + z
                                : side.record.form == ParameterForm::zero ? (code - z) * s
                                                                          : (code - mid) * s;
        ASSERT_EQ(back[c], expected) << describe(side) << " channel " << c;
      }
    }
  }
}

} // namespace
} // namespace kvq::test

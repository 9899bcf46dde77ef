// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// High-precision windows of the oracle: where a token lies, and the row that comes back.
#include "runtime/reference/Windows.h"

#include "test/support/Records.h"
#include "test/support/TestMethods.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace kvq::test {
namespace {

/// Centred and rotated keys of 64 channels, plain values of 32, two KV heads.
TestMethod makeMethod(int sink, int recent) {
  TestMethod test(plainSide(side(64, 4)), plainSide(side(32, 4)), 2);
  const int mean = test.addMean(64, 3), rotation = test.addRotation(64, 4);
  test.method.key.steps = {
      centerStep(mean), rotateStep({denseFactor(rotation), hadamardFactor(64)}, ElementType::bf16)};
  test.method.value.rows = ElementType::bf16;
  test.method.sink = sink, test.method.recent = recent;
  return test;
}

std::string text(TokenPlace place) {
  return std::string(1, "srw"[int(place.segment)]) + std::to_string(place.row);
}

/// Places of tokens 0 to count - 1: s, r and w are rows of sink, records and ring.
std::string places(const CacheMethod &method, int64_t quantized, int64_t capacity, int64_t count) {
  std::string out;
  for (int64_t token = 0; token < count; ++token)
    out += text(placeOf(method, quantized, capacity, token)) + " ";
  return out;
}

TEST(Windows, PlacesByHand) {
  EXPECT_EQ(places(makeMethod(2, 3).method, 4, 6, 12), "s0 s1 r0 r1 r2 r3 w4 w5 w0 w1 w2 w3 ");
  EXPECT_EQ(places(makeMethod(2, 3).method, 0, 6, 4), "s0 s1 w0 w1 ");
  EXPECT_EQ(places(makeMethod(0, 3).method, 7, 4, 11), "r0 r1 r2 r3 r4 r5 r6 w3 w0 w1 w2 ");
  EXPECT_EQ(places(makeMethod(3, 0).method, 2, 1, 5), "s0 s1 s2 r0 r1 ");
  EXPECT_EQ(places(makeMethod(0, 0).method, 3, 0, 3), "r0 r1 r2 ") << "no windows";
}

TEST(Windows, RowsAreKeysThenValuesWithoutGaps) {
  const CacheMethod method = makeMethod(2, 3).method; // bf16 rows of 64 and 32
  EXPECT_EQ(windowBytes(method, 16), 2 * 16 * (64 + 32));
  std::vector<uint8_t> page(size_t(windowBytes(method, 16)), 0xee), expected = page;
  putWindowRow(method, 16, page.data(), 'k', 3, std::vector<float>(64, 1));
  putWindowRow(method, 16, page.data(), 'v', 15, std::vector<float>(32, -2));
  auto fill = [&](size_t begin, size_t end, uint8_t high) {
    for (size_t i = begin; i < end; i += 2)
      expected[i] = uint8_t(high == 0x3f ? 0x80 : 0), expected[i + 1] = high;
  };
  fill(2 * 3 * 64, 2 * 4 * 64, 0x3f);                           // 1 is 3f80
  fill(2 * (16 * 64 + 15 * 32), 2 * (16 * 64 + 16 * 32), 0xc0); // -2 is c000
  EXPECT_EQ(page, expected);
}

/// Twenty tokens of which 6 are in records, in pages from the last to the first.
struct Filled {
  TestMethod test = makeMethod(2, 3);
  const CacheMethod &method = test.method;
  RecordLayout layout = buildRecord(method.record());
  DataRows rows = makeRows({DataKind::random, 1.5, 13}, 2, 2, 20, 64, 32); // heads first
  int64_t windowHead = windowBytes(method, 4) + 8, recordHead = layout.stride + 8;
  std::vector<uint8_t> windows, records;
  CachedTokens cached;

  Filled() : windows(size_t(5 * 2 * windowHead), 0xff), records(size_t(2 * recordHead), 0xff) {
    cached.quantized = 6;
    cached.sink = {{&windows[size_t(4 * 2 * windowHead)]}, windowHead, 4};
    cached.recent = {{}, windowHead, 4};
    for (int64_t page = 4; page-- > 0;)
      cached.recent.pages.push_back(&windows[size_t(page * 2 * windowHead)]);
    cached.records = {{records.data()}, recordHead, method.page};
    for (int64_t head = 0; head < 2; ++head)
      for (int64_t token = 0; token < 20; ++token)
        store(head, token);
  }

  const float *key(int64_t head, int64_t token) const {
    return &rows.keys[(head * 20 + token) * 64];
  }
  const float *value(int64_t head, int64_t token) const {
    return &rows.values[(head * 20 + token) * 32];
  }

  void store(int64_t head, int64_t token) {
    const Constants constants = test.constants();
    const bool sink = token < 2;
    const int64_t row = sink ? token : (token - 2) % 16;
    if (token >= 2 && token < 8) {
      appendToken(method, layout, constants, {0, head}, &records[size_t(head * recordHead)],
                  token - 2, key(head, token), value(head, token));
      return;
    }
    const int64_t page = sink ? 4 : 3 - row / 4;
    uint8_t *at = &windows[size_t((page * 2 + head) * windowHead)];
    putWindowRow(method, 4, at, 'k', row % 4,
                 quantizeRow(method.key, constants, {0, head}, key(head, token)).rotated);
    putWindowRow(method, 4, at, 'v', row % 4,
                 quantizeRow(method.value, constants, {0, head}, value(head, token)).rotated);
  }
};

TEST(Windows, RowsComeBack) {
  const Filled filled;
  const Constants constants = filled.test.constants();
  for (int64_t head = 0; head < 2; ++head)
    for (int64_t token = 0; token < 20; ++token)
      for (char side : {'k', 'v'}) {
        SCOPED_TRACE(std::string(1, side) + std::to_string(token));
        const std::vector<double> row = cachedRow(filled.method, filled.layout, constants,
                                                  {0, head}, filled.cached, head, side, token);
        if (token >= 2 && token < 8) {
          EXPECT_EQ(row,
                    dequantize(filled.method, filled.layout, constants, {0, head},
                               &filled.records[size_t(head * filled.recordHead)], side, token - 2));
          continue;
        }
        const float *given = side == 'k' ? filled.key(head, token) : filled.value(head, token);
        ASSERT_EQ(row.size(), side == 'k' ? 64u : 32u);
        for (size_t i = 0; i < row.size(); ++i)
          EXPECT_NEAR(row[i], given[i], 0.05); // bf16 after the rotation
      }
}

} // namespace
} // namespace kvq::test

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operands that a GPU kernel takes out of window rows by WindowMap.h, put through an emulation
// of its instructions: scores and outputs must be those of the rows, token by token and channel by
// channel. All numbers are small integers, so every sum is exact.
#include "codegen/conversion/gpu/WindowMap.h"
#include "test/support/Lcg.h"
#include "test/unit/WarpEmulator.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace kvq::test {
namespace {

namespace window = mlir::kvq::window;

constexpr int kTokens = 16, kQueries = 4;

/// A tile of rows as it lies in memory.
class RowTile {
public:
  RowTile(ElementType type, int dim, Lcg &random) : dim(dim), words(kTokens * dim / 2) {
    for (uint32_t &word : words)
      word = pairOf(type, int(random.next() % 255) - 127, int(random.next() % 255) - 127);
  }

  uint32_t word(int token, int64_t byte) const {
    EXPECT_TRUE(byte % 4 == 0 && byte < 2 * dim) << "a lane reads words of its row";
    return words[(token * dim * 2 + byte) / 4];
  }
  double value(ElementType type, int token, int channel) const {
    return elementOf(type, words[(token * dim + channel) / 2], channel % 2);
  }

private:
  int dim;
  std::vector<uint32_t> words;
};

/// Bytes 2 `half` and 2 `half` + 1 of a word, as the kernel makes floats of them.
uint32_t pairOfBytes(ElementType type, uint32_t bytes, int half) {
  const int selector = window::kByteSelector[half];
  if (type == ElementType::f16) {
    using Bytes = window::HalfBytes;
    const uint32_t numbers = permuteBytes(bytes ^ Bytes::flip, Bytes::filler, selector);
    return multiplyAddPairs(type, numbers, pairOf(type, 1, 1), Bytes::addend);
  }
  using Bytes = window::BrainBytes;
  const uint32_t pair = permuteBytes(bytes, 0, selector);
  return multiplyAddPairs(type, (pair & Bytes::bits) | Bytes::base, Bytes::one,
                          (pair & Bytes::sign) | Bytes::addend);
}

TEST(WindowMap, EveryByteWidensExactly) {
  for (ElementType type : {ElementType::f16, ElementType::bf16})
    for (int byte = -128; byte < 128; ++byte)
      for (int place = 0; place < 4; ++place) {
        // The other bytes must not matter.
        const uint32_t others = 0x5a81c37fu & ~(0xffu << 8 * place);
        const uint32_t word = others | uint32_t(uint8_t(byte)) << 8 * place;
        ASSERT_EQ(elementOf(type, pairOfBytes(type, word, place / 2), place % 2), byte)
            << "place " << place;
      }
}

/// The word of the integer query that the lanes hold for channels 16 step ... + 15: column 2 j +
/// part of an n-tile, as the MMA of codes takes it (fragment_map_test.cpp).
Lanes queryWord(const std::vector<std::vector<int>> &queries, int step) {
  Lanes word{};
  for (int lane = 0; lane < 32; ++lane)
    for (int j = 0; j < 4; ++j) {
      const int q = queries[lane / 8][16 * step + lane % 4 * 4 + j];
      const int high = (q + 128) >> 8, low = q - 256 * high;
      word[lane] |= uint32_t(uint8_t(lane / 4 % 2 ? low : high)) << 8 * j;
    }
  return word;
}

void checkScores(ElementType type, int dim, Lcg &random) {
  const RowTile rows(type, dim, random);
  std::vector<std::vector<int>> queries(kQueries, std::vector<int>(dim));
  for (auto &row : queries)
    for (int &q : row)
      q = int(random.next() % 65025) - 32512;
  Sums sums{};
  for (int step = 0; step < dim / 16; ++step) {
    const Lanes bytes = queryWord(queries, step);
    std::array<Lanes, 4> a;
    std::array<Lanes, 2> b;
    for (int lane = 0; lane < 32; ++lane)
      for (int h = 0; h < 2; ++h) {
        b[h][lane] = pairOfBytes(type, bytes[lane], h);
        for (int r = 0; r < 2; ++r)
          a[r + 2 * h][lane] = rows.word(
              lane / 4 + 8 * r, window::keyByte(step) + lane % 4 * window::kKeyBytes + 4 * h);
      }
    multiplyPairs(sums, a, b, type);
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < 2; ++r) {
      double expected = 0;
      for (int channel = 0; channel < dim; ++channel)
        expected += queries[lane % 4][channel] * rows.value(type, lane / 4 + 8 * r, channel);
      ASSERT_EQ(256 * sums[2 * r][lane] + sums[2 * r + 1][lane], expected)
          << "lane " << lane << " r " << r;
    }
}

/// The two parts of p of query t and token g + 8 r become a B register by one transposition.
Lanes weightFragment(ElementType type, const std::vector<std::vector<int>> &high, int r) {
  Lanes parts;
  for (int lane = 0; lane < 32; ++lane) {
    const int weight = high[lane % 4][lane / 4 + 8 * r];
    parts[lane] = pairOf(type, weight, weight % 7);
  }
  return transposeMatrix(parts);
}

void checkOutputs(ElementType type, int dim, Lcg &random) {
  const RowTile rows(type, dim, random);
  std::vector<std::vector<int>> weights(kQueries, std::vector<int>(kTokens));
  for (auto &row : weights)
    for (int &weight : row)
      weight = random.next() % 129;
  const std::array<Lanes, 2> b = {weightFragment(type, weights, 0),
                                  weightFragment(type, weights, 1)};
  std::set<int64_t> channels;
  for (int mTile = 0; mTile < dim / 16; ++mTile) {
    std::array<Lanes, 4> a;
    for (int i = 0; i < 4; ++i) {
      for (int lane = 0; lane < 32; ++lane)
        a[i][lane] = rows.word(lane / 4 + 8 * (i / 2), window::valueByte(mTile) +
                                                           lane % 4 * window::kValueBytes +
                                                           4 * window::valueWord(mTile, i % 2));
      a[i] = transposeMatrix(a[i]);
    }
    Sums sums{};
    multiplyPairs(sums, a, b, type);
    for (int lane = 0; lane < 32; ++lane)
      for (int half = 0; half < 2; ++half) {
        const auto channel = int(window::valueChannel(mTile, half) + window::laneChannel(lane / 4));
        channels.insert(channel);
        double high = 0, low = 0;
        for (int token = 0; token < kTokens; ++token) {
          const int weight = weights[lane % 4][token];
          high += weight * rows.value(type, token, channel);
          low += weight % 7 * rows.value(type, token, channel);
        }
        ASSERT_EQ(sums[2 * half][lane], high) << "channel " << channel;
        ASSERT_EQ(sums[2 * half + 1][lane], low) << "channel " << channel;
      }
  }
  ASSERT_EQ(channels.size(), size_t(dim));
  ASSERT_EQ(*channels.rbegin(), dim - 1);
}

TEST(WindowMap, EveryHeadDim) {
  Lcg random(11);
  for (ElementType type : {ElementType::f16, ElementType::bf16})
    for (int dim = 32; dim <= 256; dim += 32) {
      SCOPED_TRACE(std::string(elementName(type)) + " dim " + std::to_string(dim));
      checkScores(type, dim, random);
      checkOutputs(type, dim, random);
    }
}

} // namespace
} // namespace kvq::test

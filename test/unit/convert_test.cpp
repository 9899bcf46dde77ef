// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element types of the oracle as bits.
#include "runtime/reference/convert.h"

#include <gtest/gtest.h>

namespace kvq {
namespace {

TEST(Convert, EveryHalfComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    if ((bits & 0x7c00) == 0x7c00 && bits & 0x3ff)
      EXPECT_TRUE(std::isnan(f16Value(f16Bits(f16Value(uint16_t(bits))))));
    else
      EXPECT_EQ(f16Bits(f16Value(uint16_t(bits))), bits);
    if ((bits & 0x7f80) == 0x7f80 && bits & 0x7f)
      EXPECT_TRUE(std::isnan(bf16Value(bf16Bits(bf16Value(uint16_t(bits))))));
    else
      EXPECT_EQ(bf16Bits(bf16Value(uint16_t(bits))), bits);
  }
}

TEST(Convert, RoundsToNearestEven) {
  EXPECT_EQ(f16Bits(1.0), 0x3c00);
  EXPECT_EQ(f16Bits(1 + 0x1p-11), 0x3c00); // halfway, even is below
  EXPECT_EQ(f16Bits(1 + 0x1.8p-10), 0x3c02);
  EXPECT_EQ(f16Bits(1 + 0x1.001p-11), 0x3c01);
  EXPECT_EQ(f16Bits(0x1p-25), 0); // half the smallest subnormal
  EXPECT_EQ(f16Bits(0x1.004p-25), 1);
  EXPECT_EQ(f16Bits(0x1.ffep-15), 0x0400); // the largest subnormal is 0x1.ff8p-15
  EXPECT_EQ(f16Bits(65519.0), 0x7bff);
  EXPECT_EQ(f16Bits(65520.0), 0x7c00);
  EXPECT_EQ(f16Bits(-1e30), 0xfc00);
  EXPECT_EQ(f16Bits(-0.0), 0x8000);
  EXPECT_EQ(bf16Bits(floatFromBits(0x3f808000)), 0x3f80);
  EXPECT_EQ(bf16Bits(floatFromBits(0x3f818000)), 0x3f82);
  EXPECT_EQ(bf16Bits(floatFromBits(0x3f808001)), 0x3f81);
  EXPECT_EQ(bf16Bits(FLT_MAX), 0x7f80);
}

TEST(Convert, StoredNumbersAreFinite) {
  EXPECT_EQ(storedBits(ElementType::f16, 1e9f), 0x7bffu);
  EXPECT_EQ(storedBits(ElementType::f16, -INFINITY), 0xfbffu);
  EXPECT_EQ(storedBits(ElementType::bf16, INFINITY), 0x7f7fu);
  EXPECT_EQ(storedBits(ElementType::f32, INFINITY), floatBits(FLT_MAX));
  EXPECT_EQ(storedBits(ElementType::f32, -0.0f), 0u);
  EXPECT_EQ(storedBits(ElementType::f16, 0.5f), 0x3800u);
}

} // namespace
} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The estimate of an error before rounding, against errors that are known because they are made
// here.
#include "tools/gpu-check/ErrorMeasure.h"

#include "runtime/reference/convert.h"
#include "test/support/DataKinds.h"

#include <gtest/gtest.h>

namespace kvq {
namespace {

/// What the estimate says of `count` normal numbers in f64 with a relative error of `part`.
double estimate(ElementType type, int count, double part, uint64_t seed) {
  test::Gauss random(seed);
  std::vector<double> expected(count);
  for (double &x : expected)
    x = random.next();
  ErrorMeasure measure;
  for (double x : expected)
    measure.add(type, encodeElement(type, float(x + part * random.next())), x, 1);
  return measure.relative();
}

TEST(ErrorMeasure, FindsTheErrorBelowAndAboveAUnit) {
  for (ElementType type : {ElementType::bf16, ElementType::f16, ElementType::f32})
    for (double part : {3e-5, 3e-4, 6e-4, 2.5e-3, 2e-2, 0.5}) {
      SCOPED_TRACE(std::string(elementName(type)) + " " + std::to_string(part));
      const double found = estimate(type, 50000, part, 7);
      EXPECT_GT(found, 0.9 * part);
      EXPECT_LT(found, 1.1 * part);
    }
}

TEST(ErrorMeasure, OneRowStaysWithinTheSlackOfItsBound) {
  for (ElementType type : {ElementType::bf16, ElementType::f16})
    for (uint64_t seed = 1; seed <= 300; ++seed) {
      EXPECT_LT(estimate(type, 128, 3e-4, seed), 3 * 3e-4) << seed;
      EXPECT_GT(estimate(type, 128, 2e-2, seed), 1e-2) << seed;
    }
}

TEST(ErrorMeasure, ExactRoundingIsNoError) {
  for (ElementType type : {ElementType::bf16, ElementType::f16})
    EXPECT_LT(estimate(type, 5000, 0, 3), 1e-6) << "rounding to f32 first";
  // Halfway between two numbers, either is right.
  ErrorMeasure measure;
  for (uint32_t bits : {0x3f80u, 0x3f81u, 0xbf80u, 0xbf81u})
    measure.add(ElementType::bf16, bits, (bits & 0x8000 ? -1 : 1) * (1 + 0x1p-8), 1);
  EXPECT_EQ(measure.relative(), 0);
}

TEST(ErrorMeasure, WhatIsNotFiniteIsNotWithinABound) {
  ErrorMeasure measure;
  measure.add(ElementType::bf16, 0xffff, 0, 1);
  EXPECT_FALSE(measure.relative() <= 1);
  ErrorMeasure infinite;
  infinite.add(ElementType::f16, 0x7c00, 1, 1);
  EXPECT_FALSE(infinite.relative() <= 1);
}

} // namespace
} // namespace kvq

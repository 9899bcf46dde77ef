// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/ErrorMeasure.h"

#include "runtime/reference/convert.h"

namespace kvq {
namespace {

/// What rounds to a number.
struct Interval {
  double low, high;
};

Interval intervalOf(ElementType type, uint32_t bits) {
  const uint32_t sign = 1u << (8 * elementBytes(type) - 1), magnitude = bits & ~sign;
  const double value = decodeElement(type, magnitude), next = decodeElement(type, magnitude + 1);
  const double above = std::isfinite(next) ? (value + next) / 2 : INFINITY;
  const double below = magnitude ? (value + decodeElement(type, magnitude - 1)) / 2 : -above;
  return bits & sign ? Interval{-above, -below} : Interval{below, above};
}

} // namespace

void ErrorMeasure::add(ElementType type, uint32_t got, double expected, double rms) {
  norm += expected * expected;
  if (!std::isfinite(decodeElement(type, got))) {
    distance = NAN;
    return;
  }
  const Interval interval = intervalOf(type, got);
  const double d = std::max({0.0, interval.low - expected, expected - interval.high});
  distance += d * d;
  cubes += rms * rms * rms / (interval.high - interval.low);
}

void ErrorMeasure::add(const ErrorMeasure &other) {
  distance += other.distance;
  norm += other.norm;
  cubes += other.cubes;
}

double ErrorMeasure::relative() const {
  if (distance == 0)
    return 0;
  return std::max(std::sqrt(distance / norm), std::cbrt(distance / (0.532 * cubes)));
}

} // namespace kvq

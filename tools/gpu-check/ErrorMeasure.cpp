// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/ErrorMeasure.h"

#include "runtime/reference/convert.h"

#include <algorithm>

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
  if (!std::isfinite(decodeElement(type, got))) {
    distance = NAN;
    return;
  }
  const Interval interval = intervalOf(type, got);
  const double d = std::max({0.0, interval.low - expected, expected - interval.high});
  distance += d * d;
  const double octaves = std::log2(rms / (interval.high - interval.low));
  const double place = std::rint(kPerOctave * octaves) - kLowest; // of a row of zeros: -inf
  squares[size_t(std::clamp(place, 0.0, double(squares.size() - 1)))] += rms * rms;
}

void ErrorMeasure::add(const ErrorMeasure &other) {
  distance += other.distance;
  for (size_t i = 0; i < squares.size(); ++i)
    squares[i] += other.squares[i];
}

double ErrorMeasure::relative() const {
  if (!(distance > 0))
    return distance;
  auto expected = [&](double part) {
    double sum = 0;
    for (size_t i = 0; i < squares.size(); ++i) {
      const double z = part * std::exp2((double(i) + kLowest) / kPerOctave);
      sum += squares[i] * part * part * z / std::sqrt(z * z + 3.53);
    }
    return sum;
  };
  double low = -60, high = 60; // of the base 2 logarithm
  while (high - low > 1e-3)
    (expected(std::exp2((low + high) / 2)) < distance ? low : high) = (low + high) / 2;
  return std::exp2(high);
}

} // namespace kvq

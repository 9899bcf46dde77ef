// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element types as bits. Rounding is to nearest even; subnormals are kept; no half type of the
// compiler is used.
#pragma once

#include "kvq/layout.h"

#include <cfloat>
#include <cmath>
#include <cstring>

namespace kvq {

inline uint32_t floatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float floatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Too large becomes infinity, NaN stays NaN.
inline uint16_t f16Bits(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value))
    return sign | 0x7e00;
  if (magnitude >= 65520) // halfway between the largest number and the next power of two
    return sign | 0x7c00;
  const int exponent = magnitude < 0x1p-14 ? -14 : std::ilogb(magnitude);
  const int mantissa = int(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A mantissa of 2048 carries into the exponent; one below 1024, at the lowest exponent, clears
  // it.
  return sign | uint16_t(((exponent + 15) << 10) + mantissa - 1024);
}

/// Too large becomes infinity, NaN stays NaN.
inline uint16_t bf16Bits(float value) {
  const uint32_t bits = floatBits(value);
  if (std::isnan(value))
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float f16Value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float magnitude = std::ldexp(float(mantissa + (exponent ? 1024 : 0)), std::max(exponent, 1) - 25);
  if (exponent == 31)
    magnitude = mantissa ? NAN : INFINITY;
  return bits & 0x8000 ? -magnitude : magnitude;
}

inline float bf16Value(uint16_t bits) { return floatFromBits(uint32_t(bits) << 16); }

/// Bits of `value` in an element type, in the low bits of the result.
inline uint32_t encodeElement(ElementType type, float value) {
  return type == ElementType::f32   ? floatBits(value)
         : type == ElementType::f16 ? f16Bits(value)
                                    : bf16Bits(value);
}
inline float decodeElement(ElementType type, uint32_t bits) {
  return type == ElementType::f32   ? floatFromBits(bits)
         : type == ElementType::f16 ? f16Value(uint16_t(bits))
                                    : bf16Value(uint16_t(bits));
}

/// The nearest number of an element type.
inline float roundToElement(ElementType type, float value) {
  return decodeElement(type, encodeElement(type, value));
}

inline float largestFinite(ElementType type) {
  return type == ElementType::f32 ? FLT_MAX : type == ElementType::f16 ? 65504.0f : 0x1.fep127f;
}

/// T() of the writer's rule: bits of the nearest finite number. `value` is not NaN; a zero of
/// either sign is +0.
inline uint32_t storedBits(ElementType type, float value) {
  const float limit = largestFinite(type);
  return encodeElement(type, std::min(std::max(value, -limit), limit) + 0.0f);
}

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the byte and matrix instructions of a warp do, after the PTX ISA: prmt.b32,
// movmatrix.m8n8.trans.b16, mma.m16n8k32 of 8-bit integers and mma.m16n8k16 of 16-bit floats.
// Lane = 4 g + t.
#pragma once

#include "runtime/reference/convert.h"

#include <array>
#include <cstdint>

namespace kvq::test {

/// A register of every lane.
using Lanes = std::array<uint32_t, 32>;

/// Byte i of the result is byte (selector >> 4 i) & 7 of {high, low}.
inline uint32_t permuteBytes(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = uint64_t(high) << 32 | low;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= uint32_t(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}

/// 8 x 8 elements of 16 bits; lane (g, t) holds columns 2 t and 2 t + 1 of row g.
inline Lanes transposeMatrix(const Lanes &source) {
  auto element = [&](int row, int column) {
    return source[4 * row + column / 2] >> 16 * (column % 2) & 0xffff;
  };
  Lanes result;
  for (int lane = 0; lane < 32; ++lane)
    result[lane] = element(lane % 4 * 2, lane / 4) | element(lane % 4 * 2 + 1, lane / 4) << 16;
  return result;
}

/// Byte `j` of a register as an operand of an MMA.
inline int32_t operandByte(uint32_t word, int j, bool isSigned) {
  const uint8_t byte = word >> 8 * j & 0xff;
  return isSigned ? int8_t(byte) : byte;
}

/// sums += A * B. A register r + 2 h: row g + 8 r, columns 16 h + 4 t + j. B register h: rows 16 h
/// + 4 t + j, column g. Sum 2 r + i: row g + 8 r, column 2 t + i; it wraps around like int32.
inline void multiplyMatrices(std::array<Lanes, 4> &sums, const std::array<Lanes, 4> &a,
                             const std::array<Lanes, 2> &b, bool aSigned, bool bSigned) {
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4, column = lane % 4 * 2 + i % 2;
      for (int k = 0; k < 32; ++k) {
        const int h = k / 16, t = k % 16 / 4, j = k % 4;
        const int32_t left = operandByte(a[i / 2 + 2 * h][4 * row + t], j, aSigned);
        const int32_t right = operandByte(b[h][4 * column + t], j, bSigned);
        sums[i][lane] += static_cast<uint32_t>(left * right);
      }
    }
}

/// A pair of 16-bit floats, the first in the lower half.
inline uint32_t pairOf(ElementType type, double low, double high) {
  return encodeElement(type, float(low)) | encodeElement(type, float(high)) << 16;
}
inline double elementOf(ElementType type, uint32_t pair, int j) {
  return decodeElement(type, pair >> 16 * j & 0xffff);
}

/// What it does to each half of its operands: a * b + c, rounded once.
inline uint32_t multiplyAddPairs(ElementType type, uint32_t a, uint32_t b, uint32_t c) {
  auto half = [&](int j) {
    return elementOf(type, a, j) * elementOf(type, b, j) + elementOf(type, c, j);
  };
  return pairOf(type, half(0), half(1));
}

/// Sums of every lane of an MMA of floats; not rounded.
using Sums = std::array<std::array<double, 32>, 4>;

/// sums += A * B. A register r + 2 h: row g + 8 r, columns 8 h + 2 t + j. B register h: rows 8 h +
/// 2 t + j, column g. Sum 2 r + i: row g + 8 r, column 2 t + i.
inline void multiplyPairs(Sums &sums, const std::array<Lanes, 4> &a, const std::array<Lanes, 2> &b,
                          ElementType type) {
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4, column = lane % 4 * 2 + i % 2;
      for (int k = 0; k < 16; ++k) {
        const int h = k / 8, t = k % 8 / 2, j = k % 2;
        sums[i][lane] += elementOf(type, a[i / 2 + 2 * h][4 * row + t], j) *
                         elementOf(type, b[h][4 * column + t], j);
      }
    }
}

} // namespace kvq::test

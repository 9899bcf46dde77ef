// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bit fields of a byte buffer, at any bit and up to 32 bits wide; the lowest bit comes first.
#pragma once

#include <cstdint>

namespace kvq {

inline uint32_t readBits(const uint8_t *bytes, int64_t bit, int width) {
  const int shift = int(bit % 8);
  uint64_t word = 0;
  for (int i = 0; 8 * i < shift + width; ++i)
    word |= uint64_t(bytes[bit / 8 + i]) << 8 * i;
  return uint32_t(word >> shift & ((uint64_t(1) << width) - 1));
}

/// Bits of `value` above `width` are dropped; bits beside the field are kept. Bytes without a bit
/// of the field are not touched.
inline void writeBits(uint8_t *bytes, int64_t bit, int width, uint32_t value) {
  const int shift = int(bit % 8);
  const uint64_t mask = ((uint64_t(1) << width) - 1) << shift;
  const uint64_t word = uint64_t(value) << shift & mask;
  for (int i = 0; 8 * i < shift + width; ++i) {
    uint8_t &byte = bytes[bit / 8 + i];
    byte = uint8_t((byte & ~(mask >> 8 * i)) | word >> 8 * i);
  }
}

} // namespace kvq

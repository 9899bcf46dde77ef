// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the operands of the 16-bit MMAs lie in a tile of window rows: 16 tokens, row-major, D
// elements of two bytes each. Lane = 4 g + t; row r of a lane is token g + 8 r.
//
//   K: m16n8k16, A = 16 tokens x 16 channels. Word h of the vector of row r is register r + 2 h of
//      a k-step: its channels are those of bytes 2 h, 2 h + 1 of the integer query (FragmentMap.h),
//      so a query fragment is widened byte by byte and nothing moves between lanes.
//   V: m16n8k16, A = 16 channels x 16 tokens. A word of a row holds two channels; transposed over
//      the warp (movmatrix) it holds tokens 2 t, 2 t + 1 of one channel. Four m-tile halves take
//      the four words of a vector, and channels follow from that (valueChannel).
#pragma once

#include <cstdint>

namespace mlir::kvq::window {

/// How two signed bytes become two 16-bit floats: `selector`, by the half of the word, moves each
/// into a half word of its own, below a byte of `filler`. The bits of a byte then are those of a
/// mantissa whose unit is 1. f16 has room for byte + 128 (`flip`) in numbers from 1024 on; bf16 for
/// seven bits in numbers from 128 on, from which 128 or, by the sign, 256 is taken.
inline constexpr int kByteSelector[2] = {0x4140, 0x4342};
struct HalfBytes {
  static constexpr uint32_t flip = 0x80808080, filler = 0x64646464, addend = 0xe480e480;
};
struct BrainBytes {
  static constexpr uint32_t bits = 0x007f007f, base = 0x43004300, sign = 0x00800080,
                            addend = 0xc300c300, one = 0x3f803f80;
};

/// Bytes of a row that each lane loads for a k-step of K, and that all four do.
inline constexpr int64_t kKeyBytes = 8, kKeyStep = 4 * kKeyBytes;
/// The same of V, for two m-tiles.
inline constexpr int64_t kValueBytes = 16, kValueStep = 4 * kValueBytes;

/// Byte of a row at which the lanes of t = 0 load for k-step `step`; the others follow.
constexpr int64_t keyByte(int64_t step) { return kKeyStep * step; }

/// The same for m-tile `mTile` of V, and the word of the vector that becomes register a + 2 r.
constexpr int64_t valueByte(int64_t mTile) { return kValueStep * (mTile / 2); }
constexpr int64_t valueWord(int64_t mTile, int64_t a) { return 2 * (mTile % 2) + a; }

/// The channel of row g + 8 a of m-tile `mTile`: of g = 0, and what g adds.
constexpr int64_t valueChannel(int64_t mTile, int64_t a) {
  return 32 * (mTile / 2) + 2 * valueWord(mTile, a);
}
constexpr int64_t laneChannel(int64_t g) { return 8 * (g / 2) + g % 2; }

} // namespace mlir::kvq::window

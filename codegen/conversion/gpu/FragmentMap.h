// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the operands of the integer MMAs lie in a tile. Lane = 4 g + t. Everything is found by
// walking the fields of kvq/layout.h and checked for every lane, token and channel; a record that
// has another structure is refused with a sentence.
//
//   K: m16n8k32, A = 16 tokens x 32 channels. Register r + 2 h of k-step i holds, in byte j of lane
//      (g, t), token g + 8 r and channel 32 i + 16 h + 4 t + j.
//   V: m16n8k32, A = 16 channels x 32 tokens of two tiles. Register a (first tile) or a + 2 (second
//      tile) of m-tile i holds in byte j channel 16 i + 8 a + g and token 2 t + (j >> 1) + 8 (j &
//      1).
#pragma once

#include "kvq/layout.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace mlir::kvq {

/// A vector that each lane loads: `bytes` (4, 8 or 16) at tile + offset + lane * bytes.
struct LaneVector {
  int64_t offset = 0;
  int bytes = 0;
};

/// One register: slot `slot` of each byte of a word. A register of a 2-byte run instead takes its
/// bytes 0, 1 from slot `slot` and its bytes 2, 3 from slot `slot + 1` of half-word `half`.
struct RegisterPlace {
  int vector = -1, word = 0, slot = 0;
  int half = -1; ///< -1: the whole word
};

/// One parameter element: tile + offset + g * rowStride, for token g + 8 r.
struct ParamPlace {
  int64_t offset = -1, rowStride = 0;
};

/// Parameters of a side, [group][r].
struct SideParams {
  std::vector<std::array<ParamPlace, 2>> scale, zero;
};

struct FragmentMap {
  ::kvq::RecordSpec spec;
  int64_t tileBytes = 0;
  std::vector<LaneVector> keyVectors, valueVectors;
  std::vector<std::array<RegisterPlace, 4>> keySteps;   ///< [D / 32][r + 2 h]
  std::vector<std::array<RegisterPlace, 2>> valueTiles; ///< [D / 16][a]
  SideParams key, value;

  /// Builds the map of `spec`'s tile; verifyRecord(spec) is empty. Returns an empty string, or what
  /// was expected and what was found.
  static std::string build(const ::kvq::RecordSpec &spec, FragmentMap &map);

  int64_t groupSize(bool key) const {
    const ::kvq::RecordSide &side = key ? spec.k : spec.v;
    return side.group ? side.group : side.dim;
  }
  int64_t groups(bool key) const { return (key ? spec.k.dim : spec.v.dim) / groupSize(key); }
  const SideParams &params(bool isKey) const { return isKey ? key : value; }
};

} // namespace mlir::kvq

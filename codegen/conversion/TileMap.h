// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the codes and parameters of one tile lie, turned around: from (byte, slot) to (token,
// channel). Everything is derived by walking the fields of kvq/layout.h over one tile; what the CPU
// kernels rely on is checked on the way, and a record that has another structure is refused with a
// sentence. No byte position is written down here.
#pragma once

#include "kvq/layout.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::kvq {

/// Lanes of the fp32 vectors that the inner loops work on; also the tokens of a tile.
inline constexpr int kLanes = 16;
inline constexpr int kTileTokens = 16;
/// Rows of a tile: a cut stores one row of consecutive bytes for each of them.
inline constexpr int kRows = 8;

/// One K cut. Row g holds tokens g and g + 8. Its bytes, brought into the order [unit][token
/// half][8 bytes], give for each slot and unit 16 lanes: 8 channels of two tokens.
struct KeyCut {
  int64_t offset = 0; ///< bytes from the tile to row 0
  int64_t rowBytes = 0;
  int64_t firstChannel = 0, channelCount = 0;
  int units = 0;
  std::vector<int64_t> byteOrder; ///< [rowBytes] byte of the row, in the order above
  std::vector<int> channels;      ///< [slot][unit][8] channel
  std::vector<int> groups;        ///< [slot] channel group: a slot never straddles two
};

/// One V cut. Row g holds all 16 tokens of the channels `channel(slot, word) + g`. Each 16 bytes of
/// the row are a unit: lanes of equal position hold the same channel in every unit.
struct ValueCut {
  int64_t offset = 0;
  int64_t rowBytes = 0;
  int64_t firstChannel = 0, channelCount = 0;
  int units = 0, words = 0;
  std::vector<int> tokens;       ///< [rowBytes] token of the byte
  std::vector<int> laneWords;    ///< [16] word of the lane
  std::vector<int> channels;     ///< [slot][word] channel of row 0
  std::vector<int> groups;       ///< [slot][word]
  std::vector<int64_t> wordByte; ///< [word] byte of the row for token 0
};

/// Address of one parameter: bytes from the tile for token 0, and the region of 8 rows it is loaded
/// with.
struct ParamSlot {
  int64_t offset = 0; ///< bytes from the tile, token 0
  int64_t regionOffset = 0, regionBytes = 0;
  std::vector<int64_t> elements; ///< [16] element of the region for each token
};

/// The parameters of a side: `scale[group]`, and `zero[group]` where the form has one.
struct ParamMap {
  std::vector<ParamSlot> scale, zero;
};

struct TileMap {
  ::kvq::RecordSpec spec;
  int64_t tileBytes = 0;
  int keySlots = 0, valueSlots = 0;
  int keyGroups = 0, valueGroups = 0;
  int64_t keyGroupSize = 0, valueGroupSize = 0;
  std::vector<KeyCut> keyCuts;
  std::vector<ValueCut> valueCuts;
  ParamMap keyParams, valueParams;
  std::vector<::kvq::Field> fields;

  /// Builds the map of `spec`'s tile. Returns an empty string, or what was expected and what was
  /// found.
  static std::string build(const ::kvq::RecordSpec &spec, TileMap &map);

  const ::kvq::RecordSide &side(bool key) const { return key ? spec.k : spec.v; }
  const ParamMap &params(bool key) const { return key ? keyParams : valueParams; }
  int groups(bool key) const { return key ? keyGroups : valueGroups; }
  int64_t groupSize(bool key) const { return key ? keyGroupSize : valueGroupSize; }
};

} // namespace mlir::kvq

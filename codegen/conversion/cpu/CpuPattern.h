// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Base of the patterns that lower one tile op each to the CPU. On this target a row or a fragment
// is an address of stack memory: rows are `dim` floats, the layout of the other fragments is stated
// where they are made.
#pragma once

#include "codegen/conversion/Numeric.h"
#include "codegen/conversion/TileMap.h"
#include "codegen/conversion/TilePattern.h"
#include "codegen/conversion/Workspace.h"
#include "dialect/KVQTile.h"

#include <map>
#include <memory>

namespace mlir::kvq {

/// What all patterns of one lowering share.
class CpuLowering {
public:
  explicit CpuLowering(CpuFeatures features) : features(features) {}

  using Emitter = Numeric;
  Emitter emitter(OpBuilder &builder, Location loc) const { return {builder, loc, features}; }

  /// The map of `record`, which `checkRecord` accepted.
  const TileMap &map(TileRecordAttr record);
  /// Empty, or why the CPU target cannot serve `record`.
  std::string checkRecord(TileRecordAttr record);

  CpuFeatures features;

private:
  std::map<const void *, std::unique_ptr<TileMap>> maps;
};

/// Lowers `Op`.
template <typename Op> class CpuPattern : public TilePattern<Op, CpuLowering> {
  using TilePattern<Op, CpuLowering>::TilePattern;
};

/// Bytes of a vector of 16 fp32 lanes.
inline constexpr int64_t kLaneBytes = kLanes * 4;

/// Calls `body` with the address of each 16 channels of a row of `dim` channels.
void forEachChunk(Numeric &emit, Value row, int64_t dim, function_ref<void(Value)> body);
/// Replaces each 16 channels by what `body` makes of them.
void mapRow(Numeric &emit, Value row, int64_t dim, function_ref<Value(Value)> body);

/// The smallest and the largest of `count` channels, zeros normalised to +0.
std::pair<Value, Value> rangeOf(Numeric &emit, Value row, int64_t count);

/// The codes of `slot` in each byte of `row`, as bytes.
Value extractSlot(Numeric &emit, Value row, int slot, int bits);
/// 16 of them in fp32; 8-bit codes are signed.
Value unitCodes(Numeric &emit, Value slotBytes, int unit, int bits);
/// What every row of `rowBytes` bytes at `offset` of a tile is aligned to.
int64_t rowAlignment(const TileMap &map, int64_t offset, int64_t rowBytes);

/// Where things lie in the output fragment of one query, in vectors of 16 lanes.
struct OutputMap {
  explicit OutputMap(const TileMap &map) : slots(map.valueSlots) {
    for (size_t i = 0; i < map.valueCuts.size(); ++i) {
      cuts.push_back(vectors);
      vectors += kRows * slots;
    }
    offsets = vectors;
    vectors += map.valueGroups;
  }
  int64_t slots, offsets = 0, vectors = 0;
  SmallVector<int64_t> cuts;

  int64_t bytes() const { return vectors * kLaneBytes; }
};

Workspace workspaceOf(TileRecordAttr record, int64_t queries);

void populateRowPatterns(RewritePatternSet &, const TypeConverter &, CpuLowering &);
void populateRotatePatterns(RewritePatternSet &, const TypeConverter &, CpuLowering &);
void populateClipPatterns(RewritePatternSet &, const TypeConverter &, CpuLowering &);
void populateQuantizePatterns(RewritePatternSet &, const TypeConverter &, CpuLowering &);
void populateStoreRecordPatterns(RewritePatternSet &, const TypeConverter &, CpuLowering &);
void populateQueryPatterns(RewritePatternSet &, const TypeConverter &, CpuLowering &);
void populateScorePatterns(RewritePatternSet &, const TypeConverter &, CpuLowering &);
void populateMaskPatterns(RewritePatternSet &, const TypeConverter &, CpuLowering &);
void populateSoftmaxPatterns(RewritePatternSet &, const TypeConverter &, CpuLowering &);
void populateOutputPatterns(RewritePatternSet &, const TypeConverter &, CpuLowering &);
void populateWindowPatterns(RewritePatternSet &, const TypeConverter &, CpuLowering &);
void populateCombinePatterns(RewritePatternSet &, const TypeConverter &, CpuLowering &);

} // namespace mlir::kvq

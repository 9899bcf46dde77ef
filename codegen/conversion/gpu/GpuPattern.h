// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Base of the patterns that lower one tile op each to a warp of a GPU. Lane = 4 g + t. A row or a
// fragment is an address of thread-private memory, written and read at constant offsets only, so
// that LLVM promotes it to registers. Row: lane l holds channels l, l + 32, ... in fp32. The layout
// of the other fragments is stated where they are made.
#pragma once

#include "codegen/conversion/QuantizeRule.h"
#include "codegen/conversion/TilePattern.h"
#include "codegen/conversion/gpu/FragmentMap.h"
#include "codegen/conversion/gpu/GpuWorkspace.h"
#include "codegen/conversion/gpu/WarpEmit.h"
#include "dialect/KVQTile.h"

#include <map>
#include <memory>

namespace mlir::kvq {

/// What all patterns of one lowering share.
class GpuLowering {
public:
  using Emitter = WarpEmit;
  Emitter emitter(OpBuilder &builder, Location loc) const {
    // No pattern depends on what a chip has beyond sm_80.
    return {builder, loc, ChipFeatures()};
  }

  /// The map of `record`, which `checkRecord` accepted.
  const FragmentMap &map(TileRecordAttr record);
  /// The layout of one tile of `record`.
  const ::kvq::RecordLayout &layout(TileRecordAttr record);
  /// Empty, or why the GPU targets cannot serve `record`.
  static std::string checkRecord(TileRecordAttr record);

private:
  struct Entry {
    FragmentMap map;
    ::kvq::RecordLayout layout;
  };
  const Entry &entry(TileRecordAttr record);
  std::map<const void *, std::unique_ptr<Entry>> entries;
};

/// Lowers `Op`.
template <typename Op> class GpuPattern : public TilePattern<Op, GpuLowering> {
  using TilePattern<Op, GpuLowering>::TilePattern;
};

/// Shared memory in which a warp of append turns codes into bytes: one byte per channel.
inline constexpr int64_t kAppendWarpBytes = ::kvq::kMaxHeadDim;

/// What the codes of a side become in an MMA: 2-bit codes are taken as multiples of 64 by the dot
/// and of 4^slot by the output; the other codes as they are, or times 16 in the upper half.
inline int64_t keyMultiplier(int64_t bits) { return bits == 2 ? 64 : 1; }

/// Registers of lane words for a 16-byte, 8-byte or 4-byte vector.
SmallVector<Value> loadLaneVector(WarpEmit &emit, Value tile, const LaneVector &vector);

GpuWorkspace gpuWorkspaceOf(TileRecordAttr record, int64_t queries);

/// Writes what of a query fragment stands behind the scores.
void endScores(WarpEmit &emit, const GpuWorkspace &space, Value query, int64_t tiles, Value scores);

/// Replaces each channel of a row of this lane by what `body` makes of it.
void mapRow(WarpEmit &emit, Value row, int64_t dim, function_ref<Value(Value)> body);
/// The smallest and the largest of `count` channels from `first` on, zeros normalised to +0.
std::pair<Value, Value> rangeOf(WarpEmit &emit, Value row, int64_t first, int64_t count);

void populateRowPatterns(RewritePatternSet &, const TypeConverter &, GpuLowering &);
void populateRotatePatterns(RewritePatternSet &, const TypeConverter &, GpuLowering &);
void populateClipPatterns(RewritePatternSet &, const TypeConverter &, GpuLowering &);
void populateQuantizePatterns(RewritePatternSet &, const TypeConverter &, GpuLowering &);
void populateStoreRecordPatterns(RewritePatternSet &, const TypeConverter &, GpuLowering &);
void populateQueryPatterns(RewritePatternSet &, const TypeConverter &, GpuLowering &);
void populateScorePatterns(RewritePatternSet &, const TypeConverter &, GpuLowering &);
void populateMaskPatterns(RewritePatternSet &, const TypeConverter &, GpuLowering &);
void populateSoftmaxPatterns(RewritePatternSet &, const TypeConverter &, GpuLowering &);
void populateOutputPatterns(RewritePatternSet &, const TypeConverter &, GpuLowering &);
void populateWindowPatterns(RewritePatternSet &, const TypeConverter &, GpuLowering &);
void populateMergePatterns(RewritePatternSet &, const TypeConverter &, GpuLowering &);

} // namespace mlir::kvq

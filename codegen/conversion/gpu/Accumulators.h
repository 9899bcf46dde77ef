// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fragments that a warp carries from step to step of a decode.
//
//   softmax  [n-tile]: reference m, sum l, and for each value group the sum of p * (offset + mid *
//            scale) and the integer sum of the weights; then the tokens since the last move
//   output   the address of the fp32 sums in shared memory, then i32 [n-tile][m-tile][4]: channel
//            16 i + 8 a + g, element 2 a + part holds the high or low part of query t
#pragma once

#include "codegen/conversion/gpu/GpuPattern.h"

namespace mlir::kvq {

class Accumulators {
public:
  Accumulators(WarpEmit &emit, const FragmentMap &map, int64_t queries, Value state, Value output)
      : emit(emit), map(map), nTiles((queries + 3) / 4), groups(map.groups(/*key=*/false)),
        mTiles(map.spec.v.dim / 16), state(state), output(output) {}

  WarpEmit &emit;
  const FragmentMap &map;
  int64_t nTiles, groups, mTiles;

  static constexpr double kFirstReference = -1e30;
  /// Tokens between two moves of the accumulators to fp32: record.md section 8.
  static constexpr int64_t kMaxTokens = 32768;

  static int64_t stateWords(int64_t nTiles, int64_t groups) { return nTiles * (2 + 2 * groups) + 1; }
  int64_t outputWords() const { return 2 + nTiles * mTiles * 4; }

  Value real(int64_t n, int64_t field) { return emit.loadReal(state, at(n, field)); }
  Value weightSum(int64_t n, int64_t group) { return emit.loadWord(state, at(n, 2 + groups + group)); }
  void put(Value value, int64_t n, int64_t field) { emit.put(value, state, at(n, field)); }
  void putWeightSum(Value value, int64_t n, int64_t group) { put(value, n, 2 + groups + group); }
  Value tokens() { return emit.loadWord(state, at(nTiles, 0)); }
  void putTokens(Value value) { emit.put(value, state, at(nTiles, 0)); }

  int64_t sumAt(int64_t n, int64_t mTile) const { return 8 + 16 * (n * mTiles + mTile); }
  /// Value group of the channels of m-tile `mTile`.
  int64_t groupOf(int64_t mTile) const { return 16 * mTile / map.groupSize(/*key=*/false); }

  /// Offsets of n-tile `n` less the middle of the code range in rounded weights.
  Value centredOffset(int64_t n, int64_t group) {
    Value sum = emit.toReal(weightSum(n, group));
    return emit.multiplyAdd(sum, emit.real(emit.f32(), -middle()), real(n, 2 + group));
  }
  double middle() const { return codeMiddle(map.spec.v.bits); }

  /// sums = (sums + accumulators) * factor + addend(group), and clears the accumulators.
  void moveSums(int64_t n, Value factor, function_ref<Value(int64_t)> addend) {
    Value sums = emit.load(emit.pointer(), output, 8);
    for (int64_t mTile = 0; mTile < mTiles; ++mTile)
      for (int64_t a = 0; a < 2; ++a) {
        Value high = emit.loadWord(output, sumAt(n, mTile) + 8 * a);
        Value low = emit.loadWord(output, sumAt(n, mTile) + 8 * a + 4);
        Value value = emit.multiplyAdd(emit.toReal(high), emit.real(emit.f32(), 256),
                                       emit.toReal(low));
        int slot = map.valueTiles[mTile][a].slot;
        double unit = 1.0 / double(int64_t(1) << (map.spec.v.bits * slot));
        int64_t place = 4 * ((n * 2 * mTiles + 2 * mTile + a) * GpuWorkspace::kPitch);
        Value moved = emit.multiplyAdd(value, emit.real(emit.f32(), unit), emit.loadReal(sums, place));
        if (factor)
          moved = emit.fmul(moved, factor);
        if (addend)
          moved = emit.fadd(moved, addend(groupOf(mTile)));
        emit.put(moved, sums, place);
        emit.put(emit.word(0), output, sumAt(n, mTile) + 8 * a);
        emit.put(emit.word(0), output, sumAt(n, mTile) + 8 * a + 4);
      }
  }

private:
  int64_t at(int64_t n, int64_t field) const { return 4 * (n * (2 + 2 * groups) + field); }
  Value state, output;
};

} // namespace mlir::kvq

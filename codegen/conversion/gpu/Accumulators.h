// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fragments that a warp carries from step to step of a decode.
//
//   softmax  [n-tile]: the reference m of the weights being made, the sum l of p, and for each
//   value
//            group the sums of p * offset, of p * scale and, as integers, of the weights; the frame
//            M of what was moved to fp32, its sum of p and its sums of offsets. Then the tokens
//            since the last move
//   output   the address of the fp32 sums in shared memory, then i32 [n-tile][m-tile][4]: channel
//            16 i + 8 a + g, element 2 a + part holds the high or low part of query t
#pragma once

#include "codegen/conversion/gpu/GpuPattern.h"

namespace mlir::kvq {

class Accumulators {
public:
  Accumulators(WarpEmit &emit, const FragmentMap &map, int64_t queries, Value state, Value output)
      : emit(emit), map(map), nTiles(nTilesOf(queries)), groups(map.groups(/*key=*/false)),
        mTiles(map.spec.v.dim / 16), state(state), output(output) {}

  WarpEmit &emit;
  const FragmentMap &map;
  int64_t nTiles, groups, mTiles;

  static constexpr double kFirstReference = -1e30;
  /// Tokens between two moves of the accumulators to fp32: record.md section 8.
  static constexpr int64_t kMaxTokens = 32768;

  // Fields of an n-tile.
  static constexpr int64_t kReference = 0, kSum = 1, kFrame = 2, kMovedSum = 3, kOffsets = 4;
  static int64_t fields(int64_t groups) { return kOffsets + 4 * groups; }
  static int64_t stateWords(int64_t nTiles, int64_t groups) { return nTiles * fields(groups) + 1; }
  int64_t outputWords() const { return 2 + nTiles * mTiles * 4; }

  Value real(int64_t n, int64_t field) { return emit.loadReal(state, at(n, field)); }
  Value offsets(int64_t n, int64_t group) { return real(n, kOffsets + group); }
  Value movedOffsets(int64_t n, int64_t group) { return real(n, kOffsets + groups + group); }
  /// The sum of p * scale, of which the weights are roundings.
  Value exactWeights(int64_t n, int64_t group) { return real(n, kOffsets + 2 * groups + group); }
  Value weightSum(int64_t n, int64_t group) {
    return emit.loadWord(state, at(n, kOffsets + 3 * groups + group));
  }
  void put(Value value, int64_t n, int64_t field) { emit.put(value, state, at(n, field)); }
  void putOffsets(Value value, int64_t n, int64_t group) { put(value, n, kOffsets + group); }
  void putExactWeights(Value value, int64_t n, int64_t group) {
    put(value, n, kOffsets + 2 * groups + group);
  }
  void putWeightSum(Value value, int64_t n, int64_t group) {
    put(value, n, kOffsets + 3 * groups + group);
  }
  Value tokens() { return emit.loadWord(state, at(nTiles, 0)); }
  void putTokens(Value value) { emit.put(value, state, at(nTiles, 0)); }

  int64_t sumAt(int64_t n, int64_t mTile) const { return 8 + 16 * (n * mTiles + mTile); }
  /// Value group of the channels of m-tile `mTile`.
  int64_t groupOf(int64_t mTile) const { return 16 * mTile / map.groupSize(/*key=*/false); }

  double middle() const { return codeMiddle(map.spec.v.bits); }
  bool symmetric() const { return map.spec.v.form == ::kvq::ParameterForm::sym; }

  /// Moves what n-tile `n` gathered at its reference into the fp32 sums, whose frame becomes the
  /// larger of both, and clears it.
  void move(int64_t n) {
    Value reference = real(n, kReference), frame = real(n, kFrame);
    Value next = emit.maxNumber(reference, frame);
    Value old = emit.exp2(emit.fsub(frame, next)), now = emit.exp2(emit.fsub(reference, next));
    put(next, n, kFrame);
    put(emit.multiplyAdd(real(n, kSum), now, emit.fmul(real(n, kMovedSum), old)), n, kMovedSum);
    put(emit.real(emit.f32(), 0), n, kSum);
    SmallVector<Value> factors;
    for (int64_t group = 0; group < groups; ++group) {
      factors.push_back(emit.fmul(now, correction(n, group)));
      Value middles = emit.fmul(exactWeights(n, group), emit.real(emit.f32(), middle()));
      Value gathered = symmetric() ? emit.fneg(middles) : offsets(n, group);
      put(emit.multiplyAdd(gathered, now, emit.fmul(movedOffsets(n, group), old)), n,
          kOffsets + groups + group);
      putOffsets(emit.real(emit.f32(), 0), n, group);
      putExactWeights(emit.real(emit.f32(), 0), n, group);
      putWeightSum(emit.word(0), n, group);
    }
    moveSums(n, old, factors);
  }

  /// Adds `addend(group)` to the fp32 sums of n-tile `n`.
  void addToSums(int64_t n, function_ref<Value(int64_t)> addend) {
    Value sums = emit.load(emit.pointer(), output, 8);
    for (int64_t mTile = 0; mTile < mTiles; ++mTile)
      for (int64_t a = 0; a < 2; ++a)
        emit.put(emit.fadd(emit.loadReal(sums, place(n, mTile, a)), addend(groupOf(mTile))), sums,
                 place(n, mTile, a));
  }

private:
  /// Exact over rounded weights: with it the sum of weight * code errs only by what codes deviate
  /// from their own mean. Rounding loses up to half a unit of every token, always the same way in a
  /// flat tail (kernels.md section 8.1 centres at the middle of the code range instead, which a
  /// rotated mean, all in one channel, leaves).
  Value correction(int64_t n, int64_t group) {
    auto overTokens = [&](Value value, function_ref<Value(Value, Value)> add) {
      return emit.butterfly(value, 28, add);
    };
    Value exact =
        overTokens(exactWeights(n, group), [&](Value a, Value b) { return emit.fadd(a, b); });
    Value rounded = emit.toReal(
        overTokens(weightSum(n, group), [&](Value a, Value b) { return emit.add(a, b); }));
    Value one = emit.real(emit.f32(), 1);
    return emit.select(emit.fgreater(rounded, emit.real(emit.f32(), 0)), emit.fdiv(exact, rounded),
                       one);
  }

  /// Byte of the fp32 sum of channels 16 mTile + 8 a + g.
  int64_t place(int64_t n, int64_t mTile, int64_t a) const {
    return 4 * (n * 2 * mTiles + 2 * mTile + a) * GpuWorkspace::kPitch;
  }

  /// sums = sums * old + accumulators * factors[group]; the accumulators become 0.
  void moveSums(int64_t n, Value old, ArrayRef<Value> factors) {
    Value sums = emit.load(emit.pointer(), output, 8);
    for (int64_t mTile = 0; mTile < mTiles; ++mTile)
      for (int64_t a = 0; a < 2; ++a) {
        int64_t high = sumAt(n, mTile) + 8 * a;
        Value value =
            emit.multiplyAdd(emit.toReal(emit.loadWord(output, high)), emit.real(emit.f32(), 256),
                             emit.toReal(emit.loadWord(output, high + 4)));
        int slot = map.valueTiles[mTile][a].slot;
        double unit = 1.0 / double(int64_t(1) << (map.spec.v.bits * slot));
        Value moved =
            emit.fmul(emit.fmul(value, emit.real(emit.f32(), unit)), factors[groupOf(mTile)]);
        moved = emit.multiplyAdd(emit.loadReal(sums, place(n, mTile, a)), old, moved);
        emit.put(moved, sums, place(n, mTile, a));
        emit.put(emit.word(0), output, high);
        emit.put(emit.word(0), output, high + 4);
      }
  }

  int64_t at(int64_t n, int64_t field) const { return 4 * (n * fields(groups) + field); }
  Value state, output;
};

} // namespace mlir::kvq

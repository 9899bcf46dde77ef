// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What scores go through before the softmax. Bounds: i32
// [n-tile] (first token, token after the last) of query 4 n + t.
#include "codegen/conversion/gpu/GpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {
namespace {

constexpr double kLog2E = 1.4426950408889634;

/// score = change(n-tile, token in the lane's tiles, score).
template <typename Change>
void mapScores(WarpEmit &emit, Value scores, const ScoreWords &words, Change change) {
  for (int64_t tile = 0; tile < words.tiles; ++tile)
    for (int64_t n = 0; n < words.nTiles; ++n)
      for (int64_t r = 0; r < 2; ++r) {
        int64_t at = 4 * words.score(tile, n, r);
        emit.put(change(n, 16 * tile + 8 * r, emit.loadReal(scores, at)), scores, at);
      }
}

class Softcap : public GpuPattern<TileSoftcapOp> {
  using GpuPattern::GpuPattern;

  /// cap tanh(x / cap) = cap - 2 cap / (1 + exp(2 x / cap)) with logits and cap as powers of two;
  /// the steps become 1.
  SmallVector<Value> lower(TileSoftcapOp op, Adaptor operands, WarpEmit &emit) const final {
    const GpuWorkspace space = gpuWorkspaceOf(op.getRecord(), op.getQueries());
    const ScoreWords words{space.nTiles(), static_cast<int64_t>(op.getTiles())};
    double cap = op.getCap().convertToDouble() * kLog2E;
    auto real = [&](double value) { return emit.real(emit.f32(), value); };
    mapScores(emit, operands.getScores(), words, [&](int64_t n, int64_t, Value score) {
      Value step = emit.loadReal(operands.getScores(), 4 * words.step(n));
      Value shift = emit.loadReal(operands.getQuery(), 4 * (space.laneRow(n) + space.shiftWord()));
      Value logit = emit.multiplyAdd(score, step, emit.fmul(shift, real(kLog2E)));
      Value power = emit.exp2(emit.fmul(logit, real(2 * kLog2E / cap)));
      Value rest = emit.fdiv(real(2 * cap), emit.fadd(power, real(1)));
      return emit.fsub(real(cap), rest);
    });
    for (int64_t n = 0; n < words.nTiles; ++n)
      emit.put(real(1), operands.getScores(), 4 * words.step(n));
    return {operands.getScores()};
  }
};

class RowBounds : public GpuPattern<TileRowBoundsOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileRowBoundsOp op, Adaptor operands, WarpEmit &emit) const final {
    int64_t nTiles = nTilesOf(op.getQueries());
    Value bounds = emit.registers(2 * nTiles), zero = emit.index(0);
    Value first = emit.narrowWord(operands.getFirstRow());
    Value query = emit.add(first, emit.bitAnd(emit.lane(), emit.word(3)));
    for (int64_t n = 0; n < nTiles; ++n) {
      Value row = emit.add(query, emit.word(4 * n));
      Value token = emit.wide(emit.div(row, emit.narrowWord(operands.getRatio())));
      Value end = emit.add(emit.add(operands.getPosition(), token), 1);
      Value begin = emit.sub(end, operands.getWindow());
      begin = emit.select(emit.less(begin, zero), zero, begin);
      emit.put(emit.narrowWord(begin), bounds, 8 * n);
      emit.put(emit.narrowWord(end), bounds, 8 * n + 4);
    }
    return {bounds};
  }
};

class MaskScores : public GpuPattern<TileMaskScoresOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileMaskScoresOp op, Adaptor operands, WarpEmit &emit) const final {
    Value mine = emit.add(emit.narrowWord(operands.getFirst()), emit.shr(emit.lane(), 2));
    Value masked = emit.realBits(emit.f32(), 0xff800000);
    const ScoreWords words{nTilesOf(op.getQueries()), static_cast<int64_t>(op.getTiles())};
    mapScores(emit, operands.getScores(), words, [&](int64_t n, int64_t token, Value score) {
      Value position = emit.add(mine, emit.word(token));
      Value before = emit.less(position, emit.loadWord(operands.getBounds(), 8 * n));
      Value below = emit.less(position, emit.loadWord(operands.getBounds(), 8 * n + 4));
      return emit.select(before, masked, emit.select(below, score, masked));
    });
    return {operands.getScores()};
  }
};

} // namespace

void populateMaskPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                          GpuLowering &lowering) {
  patterns.add<Softcap, RowBounds, MaskScores>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What scores go through before the softmax. Bounds: i32 [query] of the first token, then [query]
// of the token after the last.
#include "codegen/conversion/cpu/CpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {
namespace {

/// Scores [query][16], one query after the other.
template <typename Change>
void mapScores(Numeric &emit, Value scores, int64_t queries, Change change) {
  emit.loop(queries, [&](Value q) {
    Value at = emit.offset(scores, emit.mul(q, kLaneBytes));
    emit.store(change(q, emit.load(emit.vecF32(kLanes), at, 64)), at, 64);
  });
}

class Softcap : public CpuPattern<TileSoftcapOp> {
  using CpuPattern::CpuPattern;

  /// tanh with a relative error below 3e-7: by the exponential, near 0 by the series.
  static Value tanh(Numeric &emit, Value x) {
    Type type = x.getType();
    auto real = [&](double value) { return emit.real(type, value); };
    Value size = emit.fabs(x), one = real(1);
    Value e = emit.expNonPositive(emit.fmul(size, real(-2)));
    Value large = emit.fdiv(emit.fsub(one, e), emit.fadd(one, e));
    large = emit.select(emit.fless(x, real(0)), emit.fneg(large), large);
    Value square = emit.fmul(x, x), series = real(62.0 / 2835);
    for (double term : {-17.0 / 315, 2.0 / 15, -1.0 / 3})
      series = emit.multiplyAdd(series, square, real(term));
    Value small = emit.multiplyAdd(emit.fmul(series, square), x, x);
    return emit.select(emit.fless(size, real(0.25)), small, large);
  }

  SmallVector<Value> lower(TileSoftcapOp op, Adaptor operands, Numeric &emit) const final {
    Workspace space = workspaceOf(op.getRecord(), op.getQueries());
    Value shifts = emit.offset(operands.getQuery(), 4 * space.queryShifts());
    double cap = op.getCap().convertToDouble();
    Type lanes = emit.vecF32(kLanes);
    mapScores(emit, operands.getScores(), op.getQueries(), [&](Value q, Value score) {
      Value shift = emit.load(emit.f32(), emit.offset(shifts, emit.mul(q, 4)));
      Value logit = emit.fadd(score, emit.splat(shift, kLanes));
      Value capped = tanh(emit, emit.fmul(logit, emit.real(lanes, 1 / cap)));
      return emit.fmul(capped, emit.real(lanes, cap));
    });
    return {operands.getScores()};
  }
};

class RowBounds : public CpuPattern<TileRowBoundsOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileRowBoundsOp op, Adaptor operands, Numeric &emit) const final {
    int64_t queries = op.getQueries();
    Value bounds = emit.scratch(8 * queries);
    auto narrow = [&](Value value) {
      return arith::TruncIOp::create(emit.builder, emit.loc, emit.i32(), value);
    };
    emit.loop(queries, [&](Value q) {
      Value token = emit.div(emit.add(operands.getFirstRow(), q), operands.getRatio());
      Value end = emit.add(emit.add(operands.getPosition(), token), 1), zero = emit.index(0);
      Value first = emit.sub(end, operands.getWindow());
      first = emit.select(emit.less(first, zero), zero, first);
      emit.store(narrow(first), emit.offset(bounds, emit.mul(q, 4)));
      emit.store(narrow(end), emit.offset(bounds, emit.add(emit.mul(q, 4), 4 * queries)));
    });
    return {bounds};
  }
};

class MaskScores : public CpuPattern<TileMaskScoresOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileMaskScoresOp op, Adaptor operands, Numeric &emit) const final {
    Value begin = arith::TruncIOp::create(emit.builder, emit.loc, emit.i32(), operands.getFirst());
    Value tokens = emit.add(emit.iota(kLanes), emit.splat(begin, kLanes));
    Value masked = emit.realBits(emit.vecF32(kLanes), 0xff800000);
    mapScores(emit, operands.getScores(), op.getQueries(), [&](Value q, Value score) {
      Value at = emit.offset(operands.getBounds(), emit.mul(q, 4));
      auto bound = [&](int64_t byte) {
        return emit.splat(emit.load(emit.i32(), emit.offset(at, byte)), kLanes);
      };
      Value before = emit.less(tokens, bound(0));
      Value below = emit.less(tokens, bound(4 * op.getQueries()));
      return emit.select(before, masked, emit.select(below, score, masked));
    });
    return {operands.getScores()};
  }
};

} // namespace

void populateMaskPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                          CpuLowering &lowering) {
  patterns.add<Softcap, RowBounds, MaskScores>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Clips. The order statistic is found without sorting: the bits of |x|, as integers, are ordered
// like |x|, so its bits are decided from the highest down, by counting how many elements lie below
// a candidate.
#include "codegen/conversion/cpu/CpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {
namespace {

class Clip : public CpuPattern<TileClipOp> {
  using CpuPattern::CpuPattern;

  static Value magnitudeBits(Numeric &emit, Value lanes) {
    Type type = emit.vec(kLanes, emit.i32());
    return emit.bitAnd(emit.bitcast(lanes, type), emit.integer(type, 0x7fffffff));
  }

  /// How many of `count` channels have a magnitude below `candidate` (i32).
  static Value countBelow(Numeric &emit, Value scope, int64_t count, Value candidate) {
    Type type = emit.vec(kLanes, emit.i32());
    Value limit = emit.splat(candidate, kLanes);
    Value lanes = emit.loopCarry(
        emit.index(count / kLanes), emit.integer(type, 0), [&](Value chunk, Value sum) {
          Value x =
              emit.load(emit.vecF32(kLanes), emit.offset(scope, emit.mul(chunk, kLaneBytes)), 64);
          Value below = emit.less(magnitudeBits(emit, x), limit);
          return emit.add(sum, arith::ExtUIOp::create(emit.builder, emit.loc, type, below));
        });
    return emit.reduce(lanes, [&](Value a, Value b) { return emit.add(a, b); });
  }

  /// The element `index` of the sorted magnitudes: the largest number with at most `index` elements
  /// below it.
  static Value orderStatistic(Numeric &emit, Value scope, int64_t count, int64_t index) {
    Value bit = emit.integer(emit.i32(), 1);
    Value found =
        emit.loopCarry(emit.index(31), emit.integer(emit.i32(), 0), [&](Value step, Value prefix) {
          Value shift = arith::TruncIOp::create(emit.builder, emit.loc, emit.i32(),
                                                emit.sub(emit.index(30), step));
          Value candidate =
              emit.bitOr(prefix, arith::ShLIOp::create(emit.builder, emit.loc, bit, shift));
          Value below = countBelow(emit, scope, count, candidate);
          return emit.select(emit.less(emit.integer(emit.i32(), index), below), prefix, candidate);
        });
    return emit.bitcast(found, emit.f32());
  }

  static std::pair<Value, Value> range(TileClipOp op, Numeric &emit, Value scope) {
    int64_t count = op.getScope();
    double value = op.getValue().convertToDouble();
    if (op.getKind() == TileClipKind::ratio) {
      auto [low, high] = rangeOf(emit, scope, count);
      Value ratio = emit.real(emit.f32(), static_cast<float>(value));
      return {emit.fmul(ratio, low), emit.fmul(ratio, high)};
    }
    Value limit = op.getKind() == TileClipKind::constant
                      ? emit.real(emit.f32(), static_cast<float>(value))
                      : orderStatistic(emit, scope, count, op.getIndex());
    return {emit.fneg(limit), limit};
  }

  SmallVector<Value> lower(TileClipOp op, Adaptor operands, Numeric &emit) const final {
    int64_t dim = op.getRow().getType().getDim(), scope = op.getScope();
    emit.loop(dim / scope, [&](Value part) {
      Value address = emit.offset(operands.getRow(), emit.mul(part, 4 * scope));
      auto [low, high] = range(op, emit, address);
      Value lows = emit.splat(low, kLanes), highs = emit.splat(high, kLanes);
      mapRow(emit, address, scope,
             [&](Value lanes) { return emit.fmin(emit.fmax(lanes, lows), highs); });
    });
    return {operands.getRow()};
  }
};

} // namespace

std::pair<Value, Value> rangeOf(Numeric &emit, Value row, int64_t count) {
  Type type = emit.vecF32(kLanes);
  Value first = emit.load(type, row, 64);
  Value chunks = emit.index(count / kLanes);
  auto fold = [&](function_ref<Value(Value, Value)> combine) {
    Value lanes = emit.loopCarry(chunks, first, [&](Value chunk, Value best) {
      return combine(emit.load(type, emit.offset(row, emit.mul(chunk, kLaneBytes)), 64), best);
    });
    // Whatever zero the comparison kept, it leaves as +0.
    return emit.fadd(emit.reduce(lanes, combine), emit.real(emit.f32(), 0));
  };
  Value low = fold([&](Value a, Value b) { return emit.fmin(a, b); });
  Value high = fold([&](Value a, Value b) { return emit.fmax(a, b); });
  return {low, high};
}

void populateClipPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                          CpuLowering &lowering) {
  patterns.add<Clip>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

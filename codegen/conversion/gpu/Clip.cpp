// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Clips. The order statistic is found without sorting, bit by bit from the highest: the bits of
// |x|, as integers, are ordered like |x|.
#include "codegen/conversion/gpu/GpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {
namespace {

class Clip : public GpuPattern<TileClipOp> {
  using GpuPattern::GpuPattern;

  /// The element `index` of the sorted magnitudes: the largest number with at most `index` elements
  /// below it.
  static Value orderStatistic(WarpEmit &emit, Value row, int64_t first, int64_t count,
                              int64_t index) {
    SmallVector<Value> magnitudes;
    for (int64_t slot = 0; slot < count / 32; ++slot)
      magnitudes.push_back(
          emit.bitAnd(emit.loadWord(row, (first / 32 + slot) * 4), emit.word(0x7fffffff)));
    Value zero = emit.word(0), one = emit.word(1);
    Value found = emit.loopCarry(emit.index(31), zero, [&](Value step, Value prefix) {
      Value shift = emit.sub(emit.word(30), emit.narrowWord(step));
      Value bit = arith::ShLIOp::create(emit.builder, emit.loc, one, shift);
      Value candidate = emit.bitOr(prefix, bit), below = zero;
      for (Value magnitude : magnitudes)
        below = emit.add(below, emit.select(emit.less(magnitude, candidate), one, zero));
      below = emit.sumWords(below);
      return emit.select(emit.less(emit.word(index), below), prefix, candidate);
    });
    return emit.bitcast(found, emit.f32());
  }

  static std::pair<Value, Value> range(TileClipOp op, WarpEmit &emit, Value row, int64_t first) {
    double value = op.getValue().convertToDouble();
    if (op.getKind() == TileClipKind::ratio) {
      auto [low, high] = rangeOf(emit, row, first, op.getScope());
      Value ratio = emit.real(emit.f32(), static_cast<float>(value));
      return {emit.fmul(ratio, low), emit.fmul(ratio, high)};
    }
    Value limit = op.getKind() == TileClipKind::constant
                      ? emit.real(emit.f32(), static_cast<float>(value))
                      : orderStatistic(emit, row, first, op.getScope(), op.getIndex());
    return {emit.fneg(limit), limit};
  }

  SmallVector<Value> lower(TileClipOp op, Adaptor operands, WarpEmit &emit) const final {
    int64_t dim = op.getRow().getType().getDim(), scope = op.getScope();
    for (int64_t first = 0; first < dim; first += scope) {
      auto [low, high] = range(op, emit, operands.getRow(), first);
      mapRow(emit, emit.offset(operands.getRow(), first / 32 * 4), scope,
             [&, low = low, high = high](Value x) { return emit.fmin(emit.fmax(x, low), high); });
    }
    return {operands.getRow()};
  }
};

} // namespace

void populateClipPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                          GpuLowering &lowering) {
  patterns.add<Clip>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

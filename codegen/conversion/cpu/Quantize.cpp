// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The writer's rule, group by group. Codes: `dim` bytes. Params: for each group the scale and the
// zero as stored, each in its element type, 4 bytes apart.
#include "codegen/conversion/QuantizeRule.h"
#include "codegen/conversion/cpu/CpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {
namespace {

class Quantize : public CpuPattern<TileQuantizeOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileQuantizeOp op, Adaptor operands, Numeric &emit) const final {
    TileSideAttr side = op.getSide();
    int64_t group = side.getGroup(), groups = side.getDim() / group;
    Value codes = emit.scratch(side.getDim()), params = emit.scratch(8 * groups);
    emit.loop(groups, [&](Value index) {
      Value row = emit.offset(operands.getRow(), emit.mul(index, 4 * group));
      auto [low, high] = rangeOf(emit, row, group);
      QuantizeRule rule(emit, op, low, high);
      Value at = emit.offset(params, emit.mul(index, 8));
      emit.store(rule.storedScale, at);
      if (rule.storedZero)
        emit.store(rule.storedZero, emit.offset(at, 4));
      emit.loop(group / kLanes, [&](Value chunk) {
        Value x = emit.load(emit.vecF32(kLanes), emit.offset(row, emit.mul(chunk, kLaneBytes)), 64);
        Value channel = emit.add(emit.mul(index, group), emit.mul(chunk, kLanes));
        Value bytes = arith::TruncIOp::create(emit.builder, emit.loc, emit.vec(kLanes, emit.i8()),
                                              rule.codesOf(x));
        emit.store(bytes, emit.offset(codes, channel), 16);
      });
    });
    return {codes, params};
  }
};

} // namespace

void populateQuantizePatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                              CpuLowering &lowering) {
  patterns.add<Quantize>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

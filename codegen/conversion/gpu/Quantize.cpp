// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The writer's rule, group by group. Codes: one word for each channel of the lane. Params: scale
// and zero of each group as stored, one word each, the same in all lanes.
#include "codegen/conversion/QuantizeRule.h"
#include "codegen/conversion/gpu/GpuPattern.h"

namespace mlir::kvq {
namespace {

class Quantize : public GpuPattern<TileQuantizeOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileQuantizeOp op, Adaptor operands, WarpEmit &emit) const final {
    TileSideAttr side = op.getSide();
    int64_t group = side.getGroup(), groups = side.getDim() / group;
    Value codes = emit.registers(side.getDim() / 32), params = emit.registers(2 * groups);
    for (int64_t index = 0; index < groups; ++index) {
      auto [low, high] = rangeOf(emit, operands.getRow(), index * group, group);
      QuantizeRule rule(emit, op, low, high);
      emit.put(rule.storedScale, params, 8 * index);
      if (rule.storedZero)
        emit.put(rule.storedZero, params, 8 * index + 4);
      for (int64_t slot = index * group / 32; slot < (index + 1) * group / 32; ++slot)
        emit.put(rule.codesOf(emit.loadReal(operands.getRow(), 4 * slot)), codes, 4 * slot);
    }
    return {codes, params};
  }
};

} // namespace

void populateQuantizePatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                              GpuLowering &lowering) {
  patterns.add<Quantize>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

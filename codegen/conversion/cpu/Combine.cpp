// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merge of the splits: each is brought to the common maximum, in ascending order, so the result
// does not depend on how work items were scheduled.
#include "codegen/conversion/cpu/CpuPattern.h"

namespace mlir::kvq {
namespace {

class Combine : public CpuPattern<TileCombineOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileCombineOp op, Adaptor operands, Numeric &emit) const final {
    int64_t dim = op.getRow().getType().getDim();
    Workspace space{static_cast<int64_t>(op.getQueries()), 0, 0, dim};
    Value splits = operands.getSplits(), scalarAt = emit.mul(operands.getIndex(), 4);
    auto partial = [&](Value split) {
      return emit.offset(operands.getPartials(), emit.mul(split, int64_t(op.getStride())));
    };
    auto scalar = [&](Value split, int64_t floats) {
      return emit.load(emit.f32(), emit.offset(partial(split), emit.add(scalarAt, 4 * floats)));
    };

    Value maximum =
        emit.loopCarry(splits, emit.realBits(emit.f32(), 0xff800000), [&](Value split, Value best) {
          return emit.fmax(scalar(split, space.partialMaxima()), best);
        });
    Value attended = emit.fgreater(maximum, emit.realBits(emit.f32(), 0xff800000));
    maximum =
        emit.select(attended, emit.fmax(operands.getSink(), maximum), emit.real(emit.f32(), 0));
    Value row = emit.scratch(4 * dim);
    emit.zero(row, 4 * dim);
    Value sum = emit.loopCarry(splits, emit.real(emit.f32(), 0), [&](Value split, Value sum) {
      Value factor = emit.expNonPositive(emit.fsub(scalar(split, space.partialMaxima()), maximum));
      Value source = emit.offset(partial(split), emit.mul(operands.getIndex(), 4 * dim));
      Value factors = emit.splat(factor, kLanes);
      emit.loop(emit.index(0), emit.index(4 * dim), kLaneBytes, [&](Value at) {
        Value lanes = emit.load(emit.vecF32(kLanes), emit.offset(source, at));
        Value target = emit.offset(row, at);
        emit.store(emit.multiplyAdd(lanes, factors, emit.load(emit.vecF32(kLanes), target, 64)),
                   target, 64);
      });
      return emit.multiplyAdd(scalar(split, space.partialSums()), factor, sum);
    });

    Value one = emit.real(emit.f32(), 1), zero = emit.real(emit.f32(), 0);
    Value sink = emit.expNonPositive(emit.fsub(operands.getSink(), maximum));
    Value total = emit.select(attended, emit.fadd(sum, sink), one);
    Value divisor = emit.splat(total, kLanes);
    mapRow(emit, row, dim, [&](Value lanes) { return emit.fdiv(lanes, divisor); });
    Value lse = emit.select(attended, emit.fadd(maximum, emit.logPositive(total)),
                            emit.realBits(emit.f32(), 0xff800000));
    return {row, lse, emit.select(attended, emit.fdiv(sum, total), zero)};
  }
};

} // namespace

void populateCombinePatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                             CpuLowering &lowering) {
  patterns.add<Combine>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Online softmax. State: [query][16] partial sums, then [query] maxima. Probs: [query][16].
// Factors: [query].
#include "codegen/conversion/cpu/CpuPattern.h"

namespace mlir::kvq {
namespace {

class InitSoftmax : public CpuPattern<TileInitSoftmaxOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileInitSoftmaxOp op, Adaptor, Numeric &emit) const final {
    int64_t queries = op.getQueries();
    Value state = emit.scratch((kLaneBytes + 4) * queries);
    emit.zero(state, kLaneBytes * queries);
    emit.loop(queries, [&](Value q) {
      Value at = emit.add(emit.mul(q, 4), kLaneBytes * queries);
      emit.store(emit.realBits(emit.f32(), 0xff800000), emit.offset(state, at));
    });
    return {state};
  }
};

class Softmax : public CpuPattern<TileSoftmaxOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileSoftmaxOp op, Adaptor operands, Numeric &emit) const final {
    int64_t queries = op.getQueries();
    Type lanesType = emit.vecF32(kLanes);
    Value probs = emit.scratch(kLaneBytes * queries), factors = emit.scratch(4 * queries);
    Value state = operands.getState(), maxima = emit.offset(state, kLaneBytes * queries);
    emit.loop(queries, [&](Value q) {
      Value lanesAt = emit.mul(q, kLaneBytes), scalarAt = emit.mul(q, 4);
      Value scores = emit.load(lanesType, emit.offset(operands.getScores(), lanesAt), 64);
      Value old = emit.load(emit.f32(), emit.offset(maxima, scalarAt));
      Value largest = emit.reduce(scores, [&](Value a, Value b) { return emit.fmax(a, b); });
      Value maximum = emit.fmax(largest, old);
      // Nothing attended so far: all p become exp(-inf - 0).
      Value none = emit.fequal(maximum, emit.realBits(emit.f32(), 0xff800000));
      Value frame = emit.select(none, emit.real(emit.f32(), 0), maximum);
      Value factor = emit.expNonPositive(emit.fsub(old, frame));
      Value p = emit.expNonPositive(emit.fsub(scores, emit.splat(frame, kLanes)));
      Value sum = emit.load(lanesType, emit.offset(state, lanesAt), 64);
      sum = emit.fadd(emit.fmul(sum, emit.splat(factor, kLanes)), p);
      emit.store(sum, emit.offset(state, lanesAt), 64);
      emit.store(maximum, emit.offset(maxima, scalarAt));
      emit.store(p, emit.offset(probs, lanesAt), 64);
      emit.store(factor, emit.offset(factors, scalarAt));
    });
    return {state, probs, factors};
  }
};

} // namespace

void populateSoftmaxPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                             CpuLowering &lowering) {
  patterns.add<InitSoftmax, Softmax>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

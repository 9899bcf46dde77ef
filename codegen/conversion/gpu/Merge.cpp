// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges: partial results are brought to the largest reference, in ascending order. References and
// maxima are of log2 scores.
#include "codegen/conversion/gpu/GpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {
namespace {

class MergeWarps : public GpuPattern<TileMergeWarpsOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileMergeWarpsOp op, Adaptor operands, WarpEmit &emit) const final {
    TileRecordAttr record = op.getRecord();
    GpuWorkspace space{static_cast<int64_t>(op.getQueries()), record.getK().getDim(), 1,
                       record.getV().getDim()};
    Value index = operands.getIndex(), count = operands.getCount(), lane = emit.wide(emit.lane());
    auto partial = [&](Value warp) {
      return emit.offset(operands.getPartials(), emit.mul(warp, 4 * space.warpWords()));
    };
    Value scalars = emit.add(emit.mul(index, 8), emit.index(4 * space.warpMaxima()));
    auto scalar = [&](Value warp, int64_t which) {
      return emit.loadReal(emit.offset(partial(warp), scalars), 4 * which);
    };
    Value most =
        emit.loopCarry(count, emit.realBits(emit.f32(), 0xff800000), [&](Value warp, Value best) {
          return emit.maxNumber(scalar(warp, 0), best);
        });
    // Channel lane + 32 i of the query: slice lane / 8 + 4 i, lane 4 (lane % 8) + query % 4.
    Value slice = emit.add(emit.mul(emit.div(index, 4), space.slices()), emit.div(lane, 8));
    Value at = emit.add(emit.mul(slice, GpuWorkspace::kPitch),
                        emit.add(emit.mul(emit.rem(lane, 8), 4), emit.rem(index, 4)));
    int64_t slots = record.getV().getDim() / 32;
    Value row = emit.registers(slots);
    for (int64_t slot = 0; slot < slots; ++slot)
      emit.put(emit.real(emit.f32(), 0), row, 4 * slot);
    Value sum = emit.loopCarry(count, emit.real(emit.f32(), 0), [&](Value warp, Value sum) {
      Value factor = emit.exp2(emit.fsub(scalar(warp, 0), most));
      Value source = emit.offset(partial(warp), emit.mul(at, 4));
      for (int64_t slot = 0; slot < slots; ++slot) {
        Value x = emit.loadReal(source, 4 * 4 * GpuWorkspace::kPitch * slot);
        emit.put(emit.multiplyAdd(x, factor, emit.loadReal(row, 4 * slot)), row, 4 * slot);
      }
      return emit.multiplyAdd(scalar(warp, 1), factor, sum);
    });
    return {row, most, sum};
  }
};

class StorePartial : public GpuPattern<TileStorePartialOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileStorePartialOp op, Adaptor operands, WarpEmit &emit) const final {
    int64_t dim = op.getRow().getType().getDim();
    GpuWorkspace space{static_cast<int64_t>(op.getQueries()), 0, 0, dim};
    Value lane = emit.wide(emit.lane()), index = operands.getIndex();
    Value target =
        emit.offset(operands.getPartial(), emit.mul(emit.add(emit.mul(index, dim), lane), 4));
    for (int64_t slot = 0; slot < dim / 32; ++slot)
      emit.put(emit.loadReal(operands.getRow(), 4 * slot), target, 128 * slot);
    emit.when(emit.equal(lane, emit.index(0)), [&] {
      Value scalars = emit.offset(operands.getPartial(), emit.mul(index, 4));
      emit.put(operands.getMax(), scalars, 4 * space.partialMaxima());
      emit.put(operands.getSum(), scalars, 4 * space.partialSums());
    });
    return {};
  }
};

class MergePartials : public GpuPattern<TileMergePartialsOp> {
  using GpuPattern::GpuPattern;

  /// Partials whose loads are in flight together.
  static constexpr int64_t kAtOnce = 8;

  SmallVector<Value> lower(TileMergePartialsOp op, Adaptor operands, WarpEmit &emit) const final {
    int64_t dim = op.getRow().getType().getDim(), slots = dim / 32;
    GpuWorkspace space{static_cast<int64_t>(op.getQueries()), 0, 0, dim};
    Value lane = emit.wide(emit.lane()), index = operands.getIndex(), count = operands.getCount();
    Value last = emit.sub(count, emit.index(1));
    auto partial = [&](Value number) {
      Value bytes = emit.mul(emit.min(number, last), int64_t(op.getStride()));
      return emit.offset(operands.getPartials(), bytes);
    };
    auto scalar = [&](Value number, int64_t floats) {
      return emit.loadReal(emit.offset(partial(number), emit.mul(index, 4)), 4 * floats);
    };
    Value rounds = emit.div(emit.add(count, emit.index(31)), 32);
    Value most =
        emit.loopCarry(rounds, emit.realBits(emit.f32(), 0xff800000), [&](Value round, Value best) {
          Value number = emit.add(emit.mul(round, 32), lane);
          return emit.maxNumber(best, scalar(number, space.partialMaxima()));
        });
    most = emit.butterfly(most, 31, [&](Value a, Value b) { return emit.maxNumber(a, b); });
    for (int64_t slot = 0; slot < slots; ++slot)
      emit.put(emit.real(emit.f32(), 0), operands.getRow(), 4 * slot);
    Value row = emit.mul(emit.add(emit.mul(index, dim), lane), 4);
    rounds = emit.div(emit.add(count, emit.index(kAtOnce - 1)), kAtOnce);
    Value zero = emit.real(emit.f32(), 0);
    Value sum = emit.loopCarry(rounds, zero, [&](Value round, Value sum) {
      for (int64_t i = 0; i < kAtOnce; ++i) {
        Value number = emit.add(emit.mul(round, kAtOnce), emit.index(i));
        Value factor = emit.exp2(emit.fsub(scalar(number, space.partialMaxima()), most));
        factor = emit.select(emit.less(number, count), factor, zero);
        Value source = emit.offset(partial(number), row);
        for (int64_t slot = 0; slot < slots; ++slot)
          emit.put(emit.multiplyAdd(emit.loadReal(source, 128 * slot), factor,
                                    emit.loadReal(operands.getRow(), 4 * slot)),
                   operands.getRow(), 4 * slot);
        sum = emit.multiplyAdd(scalar(number, space.partialSums()), factor, sum);
      }
      return sum;
    });
    return {operands.getRow(), most, sum};
  }
};

class Normalize : public GpuPattern<TileNormalizeOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileNormalizeOp op, Adaptor operands, WarpEmit &emit) const final {
    constexpr double kLn2 = 0.6931471805599453;
    Value zero = emit.real(emit.f32(), 0), empty = emit.fequal(operands.getSum(), zero);
    Value sink = emit.fmul(operands.getSink(), emit.real(emit.f32(), 1 / kLn2));
    Value most = emit.maxNumber(operands.getMax(), sink);
    Value factor = emit.exp2(emit.fsub(operands.getMax(), most));
    Value sum = emit.fmul(operands.getSum(), factor);
    Value total = emit.fadd(sum, emit.exp2(emit.fsub(sink, most)));
    Value inverse = emit.select(empty, zero, emit.fdiv(factor, total));
    mapRow(emit, operands.getRow(), op.getRow().getType().getDim(),
           [&](Value x) { return emit.fmul(x, inverse); });
    Value lse = emit.fmul(emit.fadd(most, emit.log2(total)), emit.real(emit.f32(), kLn2));
    lse = emit.select(empty, emit.realBits(emit.f32(), 0xff800000), lse);
    return {operands.getRow(), lse, emit.select(empty, zero, emit.fdiv(sum, total))};
  }
};

} // namespace

void populateMergePatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                           GpuLowering &lowering) {
  patterns.add<MergeWarps, StorePartial, MergePartials, Normalize>(converter, patterns.getContext(),
                                                                   lowering);
}

} // namespace mlir::kvq

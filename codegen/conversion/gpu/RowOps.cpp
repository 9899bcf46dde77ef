// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows: lane l holds channels l, l + 32, ...
#include "codegen/conversion/gpu/GpuPattern.h"

namespace mlir::kvq {

void mapRow(WarpEmit &emit, Value row, int64_t dim, function_ref<Value(Value)> body) {
  for (int64_t slot = 0; slot < dim / 32; ++slot)
    emit.put(body(emit.loadReal(row, 4 * slot)), row, 4 * slot);
}

std::pair<Value, Value> rangeOf(WarpEmit &emit, Value row, int64_t first, int64_t count) {
  auto fold = [&](function_ref<Value(Value, Value)> combine) {
    Value best = emit.loadReal(row, first / 32 * 4);
    for (int64_t slot = 1; slot < count / 32; ++slot)
      best = combine(emit.loadReal(row, (first / 32 + slot) * 4), best);
    best = emit.butterfly(best, 31, combine);
    // Whatever zero the comparison kept, it leaves as +0.
    return emit.fadd(best, emit.real(emit.f32(), 0));
  };
  Value low = fold([&](Value a, Value b) { return emit.fmin(a, b); });
  Value high = fold([&](Value a, Value b) { return emit.fmax(a, b); });
  return {low, high};
}

namespace {

/// Address of channel `lane` of an array of `bytes`-sized elements.
Value laneAddress(WarpEmit &emit, Value address, int64_t bytes) {
  return emit.offset(address, emit.mul(emit.wide(emit.lane()), bytes));
}

/// Replaces row by body(row, other), `other` being `dim` floats in memory.
void zipRow(WarpEmit &emit, Value row, Value other, int64_t dim,
            function_ref<Value(Value, Value)> body) {
  Value source = laneAddress(emit, other, 4);
  for (int64_t slot = 0; slot < dim / 32; ++slot) {
    Value b = emit.loadReal(source, 128 * slot);
    emit.put(body(emit.loadReal(row, 4 * slot), b), row, 4 * slot);
  }
}

class LoadRow : public GpuPattern<TileLoadRowOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileLoadRowOp op, Adaptor operands, WarpEmit &emit) const final {
    int64_t dim = op.getRow().getType().getDim();
    int64_t bytes = op.getElement().getIntOrFloatBitWidth() / 8;
    Value row = emit.registers(dim / 32), source = laneAddress(emit, operands.getAddress(), bytes);
    for (int64_t slot = 0; slot < dim / 32; ++slot) {
      Value stored =
          emit.load(emit.storageOf(op.getElement()), emit.offset(source, 32 * bytes * slot), bytes);
      emit.put(emit.widen(stored, op.getElement()), row, 4 * slot);
    }
    return {row};
  }
};

class StoreRow : public GpuPattern<TileStoreRowOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileStoreRowOp op, Adaptor operands, WarpEmit &emit) const final {
    int64_t dim = op.getRow().getType().getDim();
    int64_t bytes = op.getElement().getIntOrFloatBitWidth() / 8;
    Value target = laneAddress(emit, operands.getAddress(), bytes);
    for (int64_t slot = 0; slot < dim / 32; ++slot)
      emit.store(emit.narrow(emit.loadReal(operands.getRow(), 4 * slot), op.getElement()),
                 emit.offset(target, 32 * bytes * slot), bytes);
    return {};
  }
};

class ZeroRow : public GpuPattern<TileZeroRowOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileZeroRowOp op, Adaptor, WarpEmit &emit) const final {
    int64_t dim = op.getRow().getType().getDim();
    Value row = emit.registers(dim / 32);
    for (int64_t slot = 0; slot < dim / 32; ++slot)
      emit.put(emit.real(emit.f32(), 0), row, 4 * slot);
    return {row};
  }
};

class Center : public GpuPattern<TileCenterOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileCenterOp op, Adaptor operands, WarpEmit &emit) const final {
    zipRow(emit, operands.getRow(), operands.getMean(), op.getRow().getType().getDim(),
           [&](Value a, Value b) { return emit.fsub(a, b); });
    return {operands.getRow()};
  }
};

class AddMean : public GpuPattern<TileAddMeanOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileAddMeanOp op, Adaptor operands, WarpEmit &emit) const final {
    zipRow(emit, operands.getRow(), operands.getMean(), op.getRow().getType().getDim(),
           [&](Value a, Value b) { return emit.fadd(a, emit.fmul(operands.getFactor(), b)); });
    return {operands.getRow()};
  }
};

class AddRow : public GpuPattern<TileAddRowOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileAddRowOp op, Adaptor operands, WarpEmit &emit) const final {
    int64_t dim = op.getRow().getType().getDim();
    for (int64_t slot = 0; slot < dim / 32; ++slot)
      emit.put(emit.fadd(emit.loadReal(operands.getRow(), 4 * slot),
                         emit.loadReal(operands.getAddend(), 4 * slot)),
               operands.getRow(), 4 * slot);
    return {operands.getRow()};
  }
};

class ScaleRow : public GpuPattern<TileScaleRowOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileScaleRowOp op, Adaptor operands, WarpEmit &emit) const final {
    mapRow(emit, operands.getRow(), op.getRow().getType().getDim(),
           [&](Value x) { return emit.fmul(x, operands.getFactor()); });
    return {operands.getRow()};
  }
};

class DotMean : public GpuPattern<TileDotMeanOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileDotMeanOp op, Adaptor operands, WarpEmit &emit) const final {
    Value source = laneAddress(emit, operands.getMean(), 4), sum = emit.real(emit.f32(), 0);
    for (int64_t slot = 0; slot < op.getRow().getType().getDim() / 32; ++slot)
      sum = emit.multiplyAdd(emit.loadReal(operands.getRow(), 4 * slot),
                             emit.loadReal(source, 128 * slot), sum);
    return {emit.butterfly(sum, 31, [&](Value a, Value b) { return emit.fadd(a, b); })};
  }
};

class RoundRow : public GpuPattern<TileRoundRowOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileRoundRowOp op, Adaptor operands, WarpEmit &emit) const final {
    mapRow(emit, operands.getRow(), op.getRow().getType().getDim(),
           [&](Value x) { return emit.widen(emit.narrow(x, op.getElement()), op.getElement()); });
    return {operands.getRow()};
  }
};

class Sanitize : public GpuPattern<TileSanitizeOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileSanitizeOp op, Adaptor operands, WarpEmit &emit) const final {
    mapRow(emit, operands.getRow(), op.getRow().getType().getDim(), [&](Value x) {
      // A comparison of x with itself is false for NaN only.
      return emit.select(emit.fequal(x, x), emit.saturate(x, op.getElement()),
                         emit.real(emit.f32(), 0));
    });
    return {operands.getRow()};
  }
};

} // namespace

void populateRowPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                         GpuLowering &lowering) {
  patterns.add<LoadRow, StoreRow, ZeroRow, Center, AddMean, AddRow, ScaleRow, DotMean, RoundRow,
               Sanitize>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows: `dim` floats on the stack, updated in place 16 channels at a time.
#include "codegen/conversion/cpu/CpuPattern.h"

namespace mlir::kvq {

void forEachChunk(Numeric &emit, Value row, int64_t dim, function_ref<void(Value)> body) {
  emit.loop(emit.index(0), emit.index(4 * dim), kLaneBytes,
            [&](Value at) { body(emit.offset(row, at)); });
}

void mapRow(Numeric &emit, Value row, int64_t dim, function_ref<Value(Value)> body) {
  forEachChunk(emit, row, dim, [&](Value address) {
    Value lanes = emit.load(emit.vecF32(kLanes), address, 64);
    emit.store(body(lanes), address, 64);
  });
}

namespace {

/// Replaces row by body(row, other), `other` being `dim` floats in memory.
void zipRow(Numeric &emit, Value row, Value other, int64_t dim,
            function_ref<Value(Value, Value)> body) {
  emit.loop(emit.index(0), emit.index(4 * dim), kLaneBytes, [&](Value at) {
    Value address = emit.offset(row, at);
    Value a = emit.load(emit.vecF32(kLanes), address, 64);
    Value b = emit.load(emit.vecF32(kLanes), emit.offset(other, at));
    emit.store(body(a, b), address, 64);
  });
}

class LoadRow : public CpuPattern<TileLoadRowOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileLoadRowOp op, Adaptor operands, Numeric &emit) const final {
    int64_t dim = op.getRow().getType().getDim();
    Type element = op.getElement();
    int64_t bytes = element.getIntOrFloatBitWidth() / 8;
    Value row = emit.scratch(4 * dim);
    emit.loop(emit.index(0), emit.index(dim), kLanes, [&](Value channel) {
      Value source = emit.offset(operands.getAddress(), emit.mul(channel, bytes));
      Value lanes = emit.load(emit.vec(kLanes, emit.storageOf(element)), source, bytes);
      emit.store(emit.widen(lanes, element), emit.offset(row, emit.mul(channel, 4)), 64);
    });
    return {row};
  }
};

class StoreRow : public CpuPattern<TileStoreRowOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileStoreRowOp op, Adaptor operands, Numeric &emit) const final {
    int64_t dim = op.getRow().getType().getDim();
    int64_t bytes = op.getElement().getIntOrFloatBitWidth() / 8;
    emit.loop(emit.index(0), emit.index(dim), kLanes, [&](Value channel) {
      Value lanes =
          emit.load(emit.vecF32(kLanes), emit.offset(operands.getRow(), emit.mul(channel, 4)), 64);
      Value target = emit.offset(operands.getAddress(), emit.mul(channel, bytes));
      emit.store(emit.narrow(lanes, op.getElement()), target, bytes);
    });
    return {};
  }
};

class ZeroRow : public CpuPattern<TileZeroRowOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileZeroRowOp op, Adaptor, Numeric &emit) const final {
    int64_t bytes = 4 * op.getRow().getType().getDim();
    Value row = emit.scratch(bytes);
    emit.zero(row, bytes);
    return {row};
  }
};

class Center : public CpuPattern<TileCenterOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileCenterOp op, Adaptor operands, Numeric &emit) const final {
    zipRow(emit, operands.getRow(), operands.getMean(), op.getRow().getType().getDim(),
           [&](Value a, Value b) { return emit.fsub(a, b); });
    return {operands.getRow()};
  }
};

class AddMean : public CpuPattern<TileAddMeanOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileAddMeanOp op, Adaptor operands, Numeric &emit) const final {
    Value factor = emit.splat(operands.getFactor(), kLanes);
    zipRow(emit, operands.getRow(), operands.getMean(), op.getRow().getType().getDim(),
           [&](Value a, Value b) { return emit.fadd(a, emit.fmul(factor, b)); });
    return {operands.getRow()};
  }
};

class AddRow : public CpuPattern<TileAddRowOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileAddRowOp op, Adaptor operands, Numeric &emit) const final {
    zipRow(emit, operands.getRow(), operands.getAddend(), op.getRow().getType().getDim(),
           [&](Value a, Value b) { return emit.fadd(a, b); });
    return {operands.getRow()};
  }
};

class ScaleRow : public CpuPattern<TileScaleRowOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileScaleRowOp op, Adaptor operands, Numeric &emit) const final {
    Value factor = emit.splat(operands.getFactor(), kLanes);
    mapRow(emit, operands.getRow(), op.getRow().getType().getDim(),
           [&](Value lanes) { return emit.fmul(lanes, factor); });
    return {operands.getRow()};
  }
};

class DotMean : public CpuPattern<TileDotMeanOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileDotMeanOp op, Adaptor operands, Numeric &emit) const final {
    Value chunks = emit.index(op.getRow().getType().getDim() / kLanes);
    Value zero = emit.real(emit.vecF32(kLanes), 0);
    Value lanes = emit.loopCarry(chunks, zero, [&](Value chunk, Value sum) {
      Value at = emit.mul(chunk, kLaneBytes);
      Value a = emit.load(emit.vecF32(kLanes), emit.offset(operands.getRow(), at), 64);
      Value b = emit.load(emit.vecF32(kLanes), emit.offset(operands.getMean(), at));
      return emit.multiplyAdd(a, b, sum);
    });
    return {emit.sum(lanes)};
  }
};

class RoundRow : public CpuPattern<TileRoundRowOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileRoundRowOp op, Adaptor operands, Numeric &emit) const final {
    if (!op.getElement().isF32())
      mapRow(emit, operands.getRow(), op.getRow().getType().getDim(), [&](Value lanes) {
        return emit.widen(emit.narrow(lanes, op.getElement()), op.getElement());
      });
    return {operands.getRow()};
  }
};

class Sanitize : public CpuPattern<TileSanitizeOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileSanitizeOp op, Adaptor operands, Numeric &emit) const final {
    mapRow(emit, operands.getRow(), op.getRow().getType().getDim(), [&](Value lanes) {
      // A comparison of x with itself is false for NaN only.
      Value number = emit.fequal(lanes, lanes);
      Value finite = emit.saturate(lanes, op.getElement());
      return emit.select(number, finite, emit.real(lanes.getType(), 0));
    });
    return {operands.getRow()};
  }
};

} // namespace

void populateRowPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                         CpuLowering &lowering) {
  patterns.add<LoadRow, StoreRow, ZeroRow, Center, AddMean, AddRow, ScaleRow, DotMean, RoundRow,
               Sanitize>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

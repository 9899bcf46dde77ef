// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotations of a row. `hadamard` and `rotate` give the same bits as the scalar oracle.
#include "codegen/conversion/gpu/GpuPattern.h"

#include <cmath>

namespace mlir::kvq {
namespace {

class Hadamard : public GpuPattern<TileHadamardOp> {
  using GpuPattern::GpuPattern;

  /// The stage of stride 1 to 16, between lanes: the lane with the stride's bit set holds a - b.
  static void acrossLanes(WarpEmit &emit, Value row, int64_t slots, int stride) {
    Value upper = emit.equal(emit.bitAnd(emit.lane(), emit.word(stride)), emit.word(stride));
    for (int64_t slot = 0; slot < slots; ++slot) {
      Value mine = emit.loadReal(row, 4 * slot);
      Value partner = emit.shuffleXor(mine, stride);
      // b - a is written as b + -a: one addition serves both halves.
      Value sum = emit.fadd(partner, emit.select(upper, emit.fneg(mine), mine));
      emit.put(sum, row, 4 * slot);
    }
  }

  static void acrossSlots(WarpEmit &emit, Value row, int64_t slots, int64_t stride) {
    for (int64_t slot = 0; slot < slots; ++slot) {
      if (slot & stride)
        continue;
      Value a = emit.loadReal(row, 4 * slot), b = emit.loadReal(row, 4 * (slot + stride));
      emit.put(emit.fadd(a, b), row, 4 * slot);
      emit.put(emit.fsub(a, b), row, 4 * (slot + stride));
    }
  }

  SmallVector<Value> lower(TileHadamardOp op, Adaptor operands, WarpEmit &emit) const final {
    int64_t dim = op.getRow().getType().getDim(), order = op.getOrder();
    for (int64_t stride = 1; stride < order; stride *= 2)
      if (stride < 32)
        acrossLanes(emit, operands.getRow(), dim / 32, static_cast<int>(stride));
      else
        acrossSlots(emit, operands.getRow(), dim / 32, stride / 32);
    Value norm =
        emit.real(emit.f32(), static_cast<float>(1.0 / std::sqrt(static_cast<double>(order))));
    mapRow(emit, operands.getRow(), dim, [&](Value x) { return emit.fmul(x, norm); });
    return {operands.getRow()};
  }
};

class Rotate : public GpuPattern<TileRotateOp> {
  using GpuPattern::GpuPattern;

  /// Ascending rows i: channel i goes to all lanes, each lane adds it to its columns.
  SmallVector<Value> lower(TileRotateOp op, Adaptor operands, WarpEmit &emit) const final {
    int64_t dim = op.getRow().getType().getDim(), slots = dim / 32;
    Value result = emit.registers(slots);
    for (int64_t slot = 0; slot < slots; ++slot)
      emit.put(emit.real(emit.f32(), 0), result, 4 * slot);
    Value lane = emit.wide(emit.lane());
    // Row i of the matrix, or with `transpose` its column.
    int64_t laneStride = op.getTranspose() ? 4 * dim : 4,
            rowStride = op.getTranspose() ? 4 : 4 * dim;
    Value column = emit.offset(operands.getMatrix(), emit.mul(lane, laneStride));
    for (int64_t source = 0; source < slots; ++source) {
      Value mine = emit.loadReal(operands.getRow(), 4 * source);
      emit.loop(emit.index(32), [&](Value owner) {
        Value x = emit.broadcast(mine, emit.narrowWord(owner));
        Value line =
            emit.offset(column, emit.mul(emit.add(owner, emit.index(32 * source)), rowStride));
        for (int64_t slot = 0; slot < slots; ++slot) {
          Value product = emit.fmul(x, emit.loadReal(line, 32 * laneStride * slot));
          emit.put(emit.fadd(emit.loadReal(result, 4 * slot), product), result, 4 * slot);
        }
      });
    }
    return {result};
  }
};

} // namespace

void populateRotatePatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                            GpuLowering &lowering) {
  patterns.add<Hadamard, Rotate>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

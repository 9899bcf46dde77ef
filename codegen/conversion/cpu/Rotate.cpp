// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotations of a row. `hadamard` and the ordered form of `rotate` give the same bits as the scalar
// oracle.
#include "codegen/conversion/cpu/CpuPattern.h"

#include <cmath>

namespace mlir::kvq {
namespace {

class Hadamard : public CpuPattern<TileHadamardOp> {
  using CpuPattern::CpuPattern;

  /// The stage of stride 1, 2, 4 or 8, inside 16 lanes: lanes with the stride's bit set hold a - b.
  static Value insideStage(Numeric &emit, Value lanes, int64_t stride) {
    SmallVector<int64_t> partners, halves;
    for (int64_t i = 0; i < kLanes; ++i) {
      partners.push_back(i ^ stride);
      halves.push_back(i & stride ? i + kLanes : i);
    }
    Value partner = emit.shuffle(lanes, partners);
    return emit.shuffle(emit.fadd(lanes, partner), emit.fsub(partner, lanes), halves);
  }

  static void acrossStage(Numeric &emit, Value row, int64_t dim, int64_t stride) {
    emit.loop(dim / (2 * stride), [&](Value pair) {
      emit.loop(stride / kLanes, [&](Value chunk) {
        Value at = emit.add(emit.mul(pair, 8 * stride), emit.mul(chunk, kLaneBytes));
        Value low = emit.offset(row, at), high = emit.offset(low, 4 * stride);
        Value a = emit.load(emit.vecF32(kLanes), low, 64),
              b = emit.load(emit.vecF32(kLanes), high, 64);
        emit.store(emit.fadd(a, b), low, 64);
        emit.store(emit.fsub(a, b), high, 64);
      });
    });
  }

  SmallVector<Value> lower(TileHadamardOp op, Adaptor operands, Numeric &emit) const final {
    int64_t dim = op.getRow().getType().getDim(), order = op.getOrder();
    Value row = operands.getRow();
    Value norm = emit.real(emit.vecF32(kLanes),
                           static_cast<float>(1.0 / std::sqrt(static_cast<double>(order))));
    mapRow(emit, row, dim, [&](Value lanes) {
      for (int64_t stride = 1; stride < std::min<int64_t>(order, kLanes); stride *= 2)
        lanes = insideStage(emit, lanes, stride);
      return order <= kLanes ? emit.fmul(lanes, norm) : lanes;
    });
    if (order <= kLanes)
      return {row};
    for (int64_t stride = kLanes; stride < order; stride *= 2)
      acrossStage(emit, row, dim, stride);
    mapRow(emit, row, dim, [&](Value lanes) { return emit.fmul(lanes, norm); });
    return {row};
  }
};

class Rotate : public CpuPattern<TileRotateOp> {
  using CpuPattern::CpuPattern;

  /// 16 columns at a time, ascending rows; a column of the transpose is gathered.
  static void ordered(Numeric &emit, Value row, Value matrix, Value result, int64_t dim,
                      bool transpose) {
    emit.loop(dim / kLanes, [&](Value chunk) {
      Value zero = emit.real(emit.vecF32(kLanes), 0);
      Value sum = emit.loopCarry(emit.index(dim), zero, [&](Value i, Value sum) {
        Value x = emit.load(emit.f32(), emit.offset(row, emit.mul(i, 4)));
        Value lanes;
        if (transpose) {
          Value start =
              emit.offset(matrix, emit.add(emit.mul(chunk, kLaneBytes * dim), emit.mul(i, 4)));
          lanes = emit.gather(start, 4 * dim, kLanes);
        } else {
          Value at = emit.add(emit.mul(i, 4 * dim), emit.mul(chunk, kLaneBytes));
          lanes = emit.load(emit.vecF32(kLanes), emit.offset(matrix, at));
        }
        return emit.fadd(sum, emit.fmul(emit.splat(x, kLanes), lanes));
      });
      emit.store(sum, emit.offset(result, emit.mul(chunk, kLaneBytes)), 64);
    });
  }

  /// row times the transpose as one inner product per matrix row.
  static void innerProducts(Numeric &emit, Value row, Value matrix, Value result, int64_t dim) {
    emit.loop(dim, [&](Value j) {
      Value line = emit.offset(matrix, emit.mul(j, 4 * dim));
      Value zero = emit.real(emit.vecF32(kLanes), 0);
      Value lanes = emit.loopCarry(emit.index(dim / kLanes), zero, [&](Value chunk, Value sum) {
        Value at = emit.mul(chunk, kLaneBytes);
        Value x = emit.load(emit.vecF32(kLanes), emit.offset(row, at), 64);
        return emit.multiplyAdd(x, emit.load(emit.vecF32(kLanes), emit.offset(line, at)), sum);
      });
      emit.store(emit.sum(lanes), emit.offset(result, emit.mul(j, 4)));
    });
  }

  SmallVector<Value> lower(TileRotateOp op, Adaptor operands, Numeric &emit) const final {
    int64_t dim = op.getRow().getType().getDim();
    Value result = emit.scratch(4 * dim);
    if (op.getTranspose() && op.getAnyOrder())
      innerProducts(emit, operands.getRow(), operands.getMatrix(), result, dim);
    else
      ordered(emit, operands.getRow(), operands.getMatrix(), result, dim, op.getTranspose());
    return {result};
  }
};

} // namespace

void populateRotatePatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                            CpuLowering &lowering) {
  patterns.add<Hadamard, Rotate>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

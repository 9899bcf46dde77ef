// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Queries as integers: q = step * (256 hi + lo), hi in [-127, 127], lo in [-128, 127], step =
// max|q| / 32512; with head dims up to 256 a dot stays below 2^31 (record.md section 8). Column 2 j
// of an n-tile holds the high parts of query j, column 2 j + 1 its low parts. The words
// of a row (GpuWorkspace): step as a factor of log2 scores, sums of the query over each key group
// in units of the dot (kernels.md section 5; the sums are of the rounded query, kernels-2.md
// section 3), the shift.
#include "codegen/conversion/gpu/GpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {

GpuWorkspace gpuWorkspaceOf(TileRecordAttr record, int64_t queries) {
  return {queries, record.getK().getDim(), record.getK().getDim() / record.getK().getGroup(),
          record.getV().getDim()};
}

namespace {

constexpr double kSteps = 32512, kLog2E = 1.4426950408889634;

/// The numbers of a row: its step, its sums, its shift.
Value rowAddress(WarpEmit &emit, const GpuWorkspace &space, Value base, Value query) {
  return emit.offset(
      base, emit.add(emit.mul(query, 4 * space.rowWords()), emit.index(4 * space.rowBegin())));
}

class StoreQuery : public GpuPattern<TileStoreQueryOp> {
  using GpuPattern::GpuPattern;

  /// The lane's byte of the words of (query, k-step): B fragment lane 4 (2 (query % 4) + part) + t.
  static Value byteAddress(WarpEmit &emit, const GpuWorkspace &space, Value base, Value query) {
    Value lane = emit.wide(emit.lane());
    Value word = emit.div(lane, 16), t = emit.rem(emit.div(lane, 4), 4), j = emit.rem(lane, 4);
    Value row = emit.add(emit.mul(emit.div(query, 4), space.fragmentWords()), word);
    Value column = emit.mul(emit.rem(query, 4), 2);
    Value at = emit.add(emit.mul(row, 32), emit.add(emit.mul(column, 4), t));
    return emit.offset(base, emit.add(emit.mul(at, 4), j));
  }

  SmallVector<Value> lower(TileStoreQueryOp op, Adaptor operands, WarpEmit &emit) const final {
    GpuWorkspace space = gpuWorkspaceOf(op.getRecord(), op.getQueries());
    Value row = operands.getRow(), base = operands.getWorkspace(), query = operands.getIndex();
    int64_t slots = space.keyDim / 32, perGroup = slots / space.keyGroups;
    int64_t multiplier = keyMultiplier(op.getRecord().getK().getBits());
    // As integers the magnitudes are ordered as they are, and a NaN is the largest: it spreads.
    Value most = emit.word(0);
    for (int64_t slot = 0; slot < slots; ++slot) {
      Value bits = emit.bitAnd(emit.loadWord(row, 4 * slot), emit.word(0x7fffffff));
      most = arith::MaxUIOp::create(emit.builder, emit.loc, most, bits);
    }
    Value largest = emit.bitcast(emit.maxUnsigned(most), emit.f32());
    Value floor = emit.real(emit.f32(), 1e-30);
    largest = emit.select(emit.fless(largest, floor), floor, largest);
    Value inverse = emit.fdiv(emit.real(emit.f32(), kSteps), largest);
    Value bytes = byteAddress(emit, space, base, query);
    SmallVector<Value> sums(space.keyGroups, emit.word(0));
    for (int64_t slot = 0; slot < slots; ++slot) {
      Value scaled = emit.fmul(emit.loadReal(row, 4 * slot), inverse);
      scaled = emit.fmax(emit.fmin(scaled, emit.real(emit.f32(), kSteps)),
                         emit.real(emit.f32(), -kSteps));
      Value steps = emit.roundToInt(scaled, /*halfEven=*/true);
      Value rounded = emit.add(steps, emit.word(128));
      Value high = arith::ShRSIOp::create(emit.builder, emit.loc, rounded, emit.word(8));
      Value low = emit.sub(steps, emit.shl(high, 8));
      sums[slot / perGroup] = emit.add(sums[slot / perGroup], steps);
      Value at = emit.offset(bytes, slot * 2 * 32 * 4);
      auto byte = [&](Value value) {
        return arith::TruncIOp::create(emit.builder, emit.loc, emit.i8(), value);
      };
      emit.store(byte(high), at, 1);
      emit.store(byte(low), emit.offset(at, 16), 1);
    }
    Value rowAt = rowAddress(emit, space, base, query);
    Value step = emit.fmul(largest, emit.real(emit.f32(), kLog2E / kSteps / double(multiplier)));
    emit.put(step, rowAt, 4 * GpuWorkspace::stepWord());
    for (auto [group, sum] : llvm::enumerate(sums)) {
      Value total = arith::SIToFPOp::create(emit.builder, emit.loc, emit.f32(), emit.sumWords(sum));
      total = emit.fmul(total, emit.real(emit.f32(), double(multiplier)));
      emit.put(total, rowAt, 4 * GpuWorkspace::sumWord(static_cast<int64_t>(group)));
    }
    emit.put(operands.getShift(), rowAt, 4 * space.shiftWord());
    return {};
  }
};

/// Zeros: the eight lanes of the columns of a row, four words at once, and its numbers. A step of 0
/// is what tells that the row does not exist.
class ClearQuery : public GpuPattern<TileClearQueryOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileClearQueryOp op, Adaptor operands, WarpEmit &emit) const final {
    GpuWorkspace space = gpuWorkspaceOf(op.getRecord(), op.getQueries());
    Value lane = emit.wide(emit.lane()), query = operands.getIndex();
    Value base = operands.getWorkspace(), firstWord = emit.div(lane, 8);
    for (int64_t word = 0; word < space.fragmentWords(); word += 4) {
      Value row =
          emit.add(emit.mul(emit.div(query, 4), space.fragmentWords()), emit.add(firstWord, word));
      Value column = emit.add(emit.mul(emit.rem(query, 4), 8), emit.rem(lane, 8));
      Value at = emit.add(emit.mul(row, 32), column);
      emit.when(emit.less(firstWord, emit.index(space.fragmentWords() - word)),
                [&] { emit.store(emit.word(0), emit.offset(base, emit.mul(at, 4))); });
    }
    for (int64_t word = 0; word < space.rowWords(); ++word)
      emit.put(emit.word(0), rowAddress(emit, space, base, query), 4 * word);
    return {};
  }
};

class QueryShift : public GpuPattern<TileQueryShiftOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileQueryShiftOp op, Adaptor operands, WarpEmit &emit) const final {
    GpuWorkspace space = gpuWorkspaceOf(op.getRecord(), op.getQueries());
    Value row = rowAddress(emit, space, operands.getWorkspace(), operands.getIndex());
    return {emit.loadReal(row, 4 * space.shiftWord())};
  }
};

class LoadQuery : public GpuPattern<TileLoadQueryOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileLoadQueryOp op, Adaptor operands, WarpEmit &emit) const final {
    GpuWorkspace space = gpuWorkspaceOf(op.getRecord(), op.getQueries());
    Value query = emit.registers(space.laneWords());
    Value lane = emit.wide(emit.lane());
    Value words = emit.offset(operands.getWorkspace(), emit.mul(lane, 4));
    for (int64_t word = 0; word < space.laneRow(0); ++word)
      emit.put(emit.loadWord(words, 128 * word), query, 4 * word);
    Value rows = emit.offset(operands.getWorkspace(),
                             emit.add(emit.mul(emit.rem(lane, 4), 4 * space.rowWords()),
                                      emit.index(4 * space.rowBegin())));
    for (int64_t tile = 0; tile < space.nTiles(); ++tile)
      for (int64_t word = 0; word < space.rowWords(); ++word)
        emit.put(emit.loadReal(rows, 4 * (4 * tile * space.rowWords() + word)), query,
                 4 * (space.laneRow(tile) + word));
    for (int64_t tile = 0; tile < space.nTiles(); ++tile) {
      Value step = emit.loadReal(query, 4 * (space.laneRow(tile) + GpuWorkspace::stepWord()));
      Value exists = emit.ballot(emit.fgreater(step, emit.real(emit.f32(), 0)));
      emit.put(emit.bitAnd(exists, emit.word(15)), query, 4 * space.laneExists(tile));
    }
    return {query};
  }
};

} // namespace

void populateQueryPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                           GpuLowering &lowering) {
  patterns.add<StoreQuery, ClearQuery, QueryShift, LoadQuery>(converter, patterns.getContext(),
                                                              lowering);
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Window rows (dialect/KVQTileWindowOps.td) in fp32, between the query, softmax and output
// fragments of the codes. Both ops widen a row once for all queries.
#include "codegen/conversion/cpu/CpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {
namespace {

/// Row `row` of a tile in fp32, written to `target`; another row that counts stands in for one that
/// does not.
void loadRow(Numeric &emit, Value rows, Value row, Value begin, Value end, int64_t dim,
             Type element, Value target) {
  Value read = emit.min(row, emit.sub(end, emit.index(1)));
  read = emit.select(emit.less(read, begin), begin, read);
  // Of the tile even where no row counts.
  read = emit.bitAnd(read, emit.index(kTileTokens - 1));
  Value source = emit.offset(rows, emit.mul(read, 2 * dim));
  Type stored = emit.vec(kLanes, emit.storageOf(element));
  for (int64_t channel = 0; channel < dim; channel += kLanes) {
    Value lanes = emit.load(stored, emit.offset(source, 2 * channel), 16);
    emit.store(emit.widen(lanes, element), emit.offset(target, 4 * channel), 64);
  }
}

class DotRows : public CpuPattern<TileDotRowsOp> {
  using CpuPattern::CpuPattern;

  /// The query at `query`, kept in the order of the dot of codes, in the order of channels.
  static void order(Numeric &emit, const TileMap &map, Value query, Value target) {
    int64_t at = 0;
    for (const KeyCut &cut : map.keyCuts)
      for (size_t begin = 0; begin < cut.channels.size();) {
        size_t count = 1;
        while (count < 8 && begin % (2 * count) == 0 && begin + 2 * count <= cut.channels.size() &&
               cut.channels[begin + 2 * count - 1] ==
                   cut.channels[begin] + static_cast<int>(2 * count) - 1)
          count *= 2;
        Type type = count == 1 ? emit.f32() : emit.vecF32(static_cast<int64_t>(count));
        emit.store(emit.load(type, emit.offset(query, 4 * at)),
                   emit.offset(target, 4 * int64_t(cut.channels[begin])));
        begin += count, at += static_cast<int64_t>(count);
      }
  }

  static Value dot(Numeric &emit, Value a, Value b, int64_t dim) {
    Type lanesType = emit.vecF32(kLanes);
    Value sum = emit.real(lanesType, 0);
    for (int64_t channel = 0; channel < dim; channel += kLanes)
      sum = emit.multiplyAdd(emit.load(lanesType, emit.offset(a, 4 * channel), 64),
                             emit.load(lanesType, emit.offset(b, 4 * channel), 64), sum);
    return emit.sum(sum);
  }

  SmallVector<Value> lower(TileDotRowsOp op, Adaptor operands, Numeric &emit) const final {
    const TileMap &map = lowering.map(op.getRecord());
    int64_t queries = op.getQueries(), dim = map.spec.k.dim;
    Value begin = operands.getBegin(), end = operands.getEnd();
    Value scores = emit.scratch(kLaneBytes * queries), row = emit.scratch(4 * dim);
    Value ordered = emit.scratch(4 * dim * queries);
    emit.loop(queries, [&](Value q) {
      Value at = emit.mul(q, 4 * dim);
      order(emit, map, emit.offset(operands.getQuery(), at), emit.offset(ordered, at));
    });
    emit.loop(kTileTokens, [&](Value token) {
      loadRow(emit, operands.getRows(), token, begin, end, dim, op.getElement(), row);
      emit.loop(queries, [&](Value q) {
        Value score = dot(emit, emit.offset(ordered, emit.mul(q, 4 * dim)), row, dim);
        emit.store(score,
                   emit.offset(scores, emit.add(emit.mul(q, kLaneBytes), emit.mul(token, 4))));
      });
    });
    return {scores};
  }
};

class MaskRows : public CpuPattern<TileMaskRowsOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileMaskRowsOp op, Adaptor operands, Numeric &emit) const final {
    auto narrow = [&](Value value) {
      Value word = arith::TruncIOp::create(emit.builder, emit.loc, emit.i32(), value);
      return emit.splat(word, kLanes);
    };
    Value row = emit.iota(kLanes), masked = emit.realBits(emit.vecF32(kLanes), 0xff800000);
    Value before = emit.less(row, narrow(operands.getBegin()));
    Value below = emit.less(row, narrow(operands.getEnd()));
    emit.loop(op.getQueries(), [&](Value q) {
      Value at = emit.offset(operands.getScores(), emit.mul(q, kLaneBytes));
      Value score = emit.load(emit.vecF32(kLanes), at, 64);
      emit.store(emit.select(before, masked, emit.select(below, score, masked)), at, 64);
    });
    return {operands.getScores()};
  }
};

class AccumulateRows : public CpuPattern<TileAccumulateRowsOp> {
  using CpuPattern::CpuPattern;

  SmallVector<Value> lower(TileAccumulateRowsOp op, Adaptor operands, Numeric &emit) const final {
    Value begin = operands.getBegin(), end = operands.getEnd();
    Value some = emit.bitAnd(emit.less(begin, end), emit.less(emit.index(0), end));
    some = emit.bitAnd(some, emit.less(begin, emit.index(kTileTokens)));
    // Where no row counts, stale bytes would be read, of which a p of 0 makes no numbers.
    emit.when(some, [&] { accumulate(op, operands, emit); });
    return {operands.getOutput()};
  }

  void accumulate(TileAccumulateRowsOp op, Adaptor operands, Numeric &emit) const {
    const TileMap &map = lowering.map(op.getRecord());
    OutputMap output(map);
    int64_t queries = op.getQueries(), dim = map.spec.v.dim;
    Type lanesType = emit.vecF32(kLanes);
    Value row = emit.scratch(4 * dim), sums = emit.scratch(4 * dim * queries);
    emit.zero(sums, 4 * dim * queries);
    emit.loop(kTileTokens, [&](Value token) {
      loadRow(emit, operands.getRows(), token, operands.getBegin(), operands.getEnd(), dim,
              op.getElement(), row);
      emit.loop(queries, [&](Value q) {
        Value at = emit.add(emit.mul(q, kLaneBytes), emit.mul(token, 4));
        Value p = emit.splat(emit.load(emit.f32(), emit.offset(operands.getProbs(), at)), kLanes);
        Value target = emit.offset(sums, emit.mul(q, 4 * dim));
        for (int64_t channel = 0; channel < dim; channel += kLanes) {
          Value lanes = emit.load(lanesType, emit.offset(row, 4 * channel), 64);
          Value address = emit.offset(target, 4 * channel);
          emit.store(emit.multiplyAdd(p, lanes, emit.load(lanesType, address, 64)), address, 64);
        }
      });
    });
    emit.loop(queries, [&](Value q) {
      Value source = emit.offset(sums, emit.mul(q, 4 * dim));
      Value target = emit.offset(operands.getOutput(), emit.mul(q, output.bytes()));
      emit.loop(kRows, [&](Value g) { addRow(emit, map, output, source, g, target); });
    });
  }

  /// Adds the channels of row g to a lane of each: flush sums all lanes of a channel.
  static void addRow(Numeric &emit, const TileMap &map, const OutputMap &output, Value source,
                     Value g, Value target) {
    for (auto [index, cut] : llvm::enumerate(map.valueCuts))
      for (int slot = 0; slot < map.valueSlots; ++slot)
        for (int word = 0; word < cut.words; ++word) {
          int64_t lane = llvm::find(cut.laneWords, word) - cut.laneWords.begin();
          int64_t channel = cut.channels[slot * cut.words + word];
          Value sum =
              emit.offset(target, emit.add(emit.mul(g, output.slots * kLaneBytes),
                                           (output.cuts[index] + slot) * kLaneBytes + 4 * lane));
          Value addend =
              emit.load(emit.f32(), emit.offset(source, emit.add(emit.mul(g, 4), 4 * channel)));
          emit.store(emit.fadd(emit.load(emit.f32(), sum), addend), sum);
        }
  }
};

} // namespace

void populateWindowPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                            CpuLowering &lowering) {
  patterns.add<DotRows, MaskRows, AccumulateRows>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

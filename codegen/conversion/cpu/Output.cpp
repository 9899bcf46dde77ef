// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Output accumulators. Output: for each query [cut][row g][slot][16 lanes], then [group][16 lanes]
// of p * offset; lanes of a word are summed only when the split is flushed. Weights: for each query
// the distinct patterns of p * scale, each as [unit][16 lanes], in the order in which the bytes of
// a row name their tokens.
#include "codegen/conversion/cpu/CpuPattern.h"

namespace mlir::kvq {
namespace {

/// The distinct weight patterns of a tile. A pattern names a (token, channel group) for every byte
/// of a row.
struct WeightMap {
  using Pattern = std::vector<std::pair<int, int>>;

  explicit WeightMap(const TileMap &map) {
    for (const ValueCut &cut : map.valueCuts)
      for (int slot = 0; slot < map.valueSlots; ++slot)
        first.push_back(add(patternOf(cut, slot)));
  }

  /// First vector of the pattern of (cut, slot), and all patterns one after another.
  SmallVector<int64_t> first;
  SmallVector<Pattern> patterns;
  int64_t vectors = 0;

  int64_t bytes() const { return vectors * kLaneBytes; }

private:
  static Pattern patternOf(const ValueCut &cut, int slot) {
    Pattern pattern;
    for (int64_t byte = 0; byte < cut.rowBytes; ++byte)
      pattern.emplace_back(cut.tokens[byte],
                           cut.groups[slot * cut.words + cut.laneWords[byte % kLanes]]);
    return pattern;
  }

  int64_t add(Pattern pattern) {
    int64_t at = 0;
    for (const Pattern &known : patterns) {
      if (known == pattern)
        return at;
      at += known.size() / kLanes;
    }
    vectors += pattern.size() / kLanes;
    patterns.push_back(std::move(pattern));
    return at;
  }
};

class InitOutput : public CpuPattern<TileInitOutputOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileInitOutputOp op, Adaptor, Numeric &emit) const final {
    int64_t bytes = OutputMap(lowering.map(op.getRecord())).bytes() * op.getQueries();
    Value output = emit.scratch(bytes);
    emit.zero(output, bytes);
    return {output};
  }
};

class Rescale : public CpuPattern<TileRescaleOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileRescaleOp op, Adaptor operands, Numeric &emit) const final {
    OutputMap output(lowering.map(op.getRecord()));
    emit.loop(op.getQueries(), [&](Value q) {
      Value factor = emit.load(emit.f32(), emit.offset(operands.getFactors(), emit.mul(q, 4)));
      emit.when(emit.notEqual(factor, emit.real(emit.f32(), 1)), [&] {
        Value row = emit.offset(operands.getOutput(), emit.mul(q, output.bytes()));
        Value factors = emit.splat(factor, kLanes);
        mapRow(emit, row, output.vectors * kLanes,
               [&](Value lanes) { return emit.fmul(lanes, factors); });
      });
    });
    return {operands.getOutput()};
  }
};

class Weigh : public CpuPattern<TileWeighOp> {
  using CpuPattern::CpuPattern;

  /// 16 lanes of a pattern from the weights of each group; a row names at most two groups in 16
  /// bytes.
  static Value lanesOf(Numeric &emit, ArrayRef<std::pair<int, int>> pattern,
                       ArrayRef<Value> weights) {
    int a = pattern.front().second, b = a;
    for (auto [token, group] : pattern)
      if (group != a)
        b = group;
    SmallVector<int64_t> mask;
    for (auto [token, group] : pattern)
      mask.push_back(group == a ? token : token + kTileTokens);
    return emit.shuffle(weights[a], weights[b], mask);
  }

  SmallVector<Value> lower(TileWeighOp op, Adaptor operands, Numeric &emit) const final {
    const TileMap &map = lowering.map(op.getRecord());
    WeightMap patterns(map);
    Type lanesType = emit.vecF32(kLanes);
    Value result = emit.scratch(patterns.bytes() * op.getQueries());
    emit.loop(op.getQueries(), [&](Value q) {
      Value p = emit.load(lanesType, emit.offset(operands.getProbs(), emit.mul(q, kLaneBytes)), 64);
      SmallVector<Value> weights;
      for (int64_t group = 0; group < map.valueGroups; ++group)
        weights.push_back(
            emit.fmul(p, emit.load(lanesType,
                                   emit.offset(operands.getParams(), 2 * kLaneBytes * group), 64)));
      Value target = emit.offset(result, emit.mul(q, patterns.bytes()));
      int64_t at = 0;
      for (ArrayRef<std::pair<int, int>> pattern : patterns.patterns)
        for (; !pattern.empty(); pattern = pattern.drop_front(kLanes), at += kLaneBytes)
          emit.store(lanesOf(emit, pattern.take_front(kLanes), weights), emit.offset(target, at),
                     64);
    });
    return {result};
  }
};

class AddOffsets : public CpuPattern<TileAddOffsetsOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileAddOffsetsOp op, Adaptor operands, Numeric &emit) const final {
    const TileMap &map = lowering.map(op.getRecord());
    OutputMap output(map);
    Type lanesType = emit.vecF32(kLanes);
    emit.loop(op.getQueries(), [&](Value q) {
      Value p = emit.load(lanesType, emit.offset(operands.getProbs(), emit.mul(q, kLaneBytes)), 64);
      Value sums = emit.offset(operands.getOutput(), emit.mul(q, output.bytes()));
      sums = emit.offset(sums, output.offsets * kLaneBytes);
      emit.loop(map.valueGroups, [&](Value group) {
        Value params = emit.offset(operands.getParams(), emit.mul(group, 2 * kLaneBytes));
        Value offset = emit.load(lanesType, emit.offset(params, kLaneBytes), 64);
        Value address = emit.offset(sums, emit.mul(group, kLaneBytes));
        emit.store(emit.multiplyAdd(p, offset, emit.load(lanesType, address, 64)), address, 64);
      });
    });
    return {operands.getOutput()};
  }
};

class Accumulate : public CpuPattern<TileAccumulateOp> {
  using CpuPattern::CpuPattern;

  /// Adds the units of one slot of one row to one query's lanes.
  static void slot(Numeric &emit, ArrayRef<Value> codes, Value target, Value weights) {
    Type lanesType = emit.vecF32(kLanes);
    Value sum = emit.load(lanesType, target, 64);
    for (size_t unit = 0; unit < codes.size(); ++unit) {
      Value weight = emit.load(lanesType, emit.offset(weights, int64_t(unit) * kLaneBytes), 64);
      sum = emit.multiplyAdd(codes[unit], weight, sum);
    }
    emit.store(sum, target, 64);
  }

  SmallVector<Value> lower(TileAccumulateOp op, Adaptor operands, Numeric &emit) const final {
    const TileMap &map = lowering.map(op.getRecord());
    OutputMap output(map);
    WeightMap patterns(map);
    emit.loop(kRows, [&](Value g) {
      for (auto [index, cut] : llvm::enumerate(map.valueCuts)) {
        Value address =
            emit.offset(emit.offset(operands.getTile(), cut.offset), emit.mul(g, cut.rowBytes));
        Value bytes = emit.load(emit.vec(cut.rowBytes, emit.i8()), address,
                                rowAlignment(map, cut.offset, cut.rowBytes));
        Value rowStart =
            emit.add(emit.mul(g, output.slots * kLaneBytes), output.cuts[index] * kLaneBytes);
        for (int slotIndex = 0; slotIndex < map.valueSlots; ++slotIndex) {
          Value slotBytes = extractSlot(emit, bytes, slotIndex, map.spec.v.bits);
          SmallVector<Value> codes;
          for (int unit = 0; unit < cut.units; ++unit)
            codes.push_back(unitCodes(emit, slotBytes, unit, map.spec.v.bits));
          int64_t pattern = patterns.first[index * map.valueSlots + slotIndex] * kLaneBytes;
          Value at = emit.add(rowStart, slotIndex * kLaneBytes);
          emit.loop(op.getQueries(), [&](Value q) {
            Value target =
                emit.offset(operands.getOutput(), emit.add(at, emit.mul(q, output.bytes())));
            Value weights = emit.offset(operands.getWeights(),
                                        emit.add(emit.mul(q, patterns.bytes()), pattern));
            slot(emit, codes, target, weights);
          });
        }
      }
    });
    return {operands.getOutput()};
  }
};

class Flush : public CpuPattern<TileFlushOp> {
  using CpuPattern::CpuPattern;

  /// Sums the lanes of each word: [word].
  static Value words(Numeric &emit, Value lanes, const ValueCut &cut) {
    SmallVector<int64_t> order;
    for (int word = 0; word < cut.words; ++word)
      for (int64_t i = 0; i < kLanes; ++i)
        if (cut.laneWords[i] == word)
          order.push_back(i);
    lanes = emit.shuffle(lanes, order);
    for (int64_t count = kLanes / 2; count >= cut.words; count /= 2) {
      SmallVector<int64_t> even, odd;
      for (int64_t i = 0; i < count; ++i) {
        even.push_back(2 * i);
        odd.push_back(2 * i + 1);
      }
      lanes = emit.fadd(emit.shuffle(lanes, even), emit.shuffle(lanes, odd));
    }
    return lanes;
  }

  static void row(Numeric &emit, const TileMap &map, const OutputMap &output, Value source,
                  ArrayRef<Value> offsets, Value g, Value target) {
    for (auto [index, cut] : llvm::enumerate(map.valueCuts))
      for (int slot = 0; slot < map.valueSlots; ++slot) {
        Value at = emit.add(emit.mul(g, output.slots * kLaneBytes),
                            (output.cuts[index] + slot) * kLaneBytes);
        Value sums = words(emit, emit.load(emit.vecF32(kLanes), emit.offset(source, at), 64), cut);
        for (int word = 0; word < cut.words; ++word) {
          int entry = slot * cut.words + word;
          Value channel =
              emit.offset(target, emit.add(emit.mul(g, 4), 4 * int64_t(cut.channels[entry])));
          emit.store(emit.fadd(emit.lane(sums, word), offsets[cut.groups[entry]]), channel);
        }
      }
  }

  SmallVector<Value> lower(TileFlushOp op, Adaptor operands, Numeric &emit) const final {
    const TileMap &map = lowering.map(op.getRecord());
    OutputMap output(map);
    Workspace space = workspaceOf(op.getRecord(), op.getQueries());
    Type lanesType = emit.vecF32(kLanes);
    emit.loop(op.getQueries(), [&](Value q) {
      Value source = emit.offset(operands.getOutput(), emit.mul(q, output.bytes()));
      SmallVector<Value> offsets;
      for (int64_t group = 0; group < map.valueGroups; ++group)
        offsets.push_back(emit.sum(
            emit.load(lanesType, emit.offset(source, (output.offsets + group) * kLaneBytes), 64)));
      Value target = emit.offset(operands.getPartial(), emit.mul(q, 4 * space.valueDim));
      emit.loop(kRows, [&](Value g) { row(emit, map, output, source, offsets, g, target); });
      Value lanes =
          emit.load(lanesType, emit.offset(operands.getState(), emit.mul(q, kLaneBytes)), 64);
      Value scalarAt = emit.mul(q, 4);
      Value maximum =
          emit.load(emit.f32(), emit.offset(operands.getState(),
                                            emit.add(scalarAt, kLaneBytes * op.getQueries())));
      emit.store(maximum,
                 emit.offset(operands.getPartial(), emit.add(scalarAt, 4 * space.partialMaxima())));
      emit.store(emit.sum(lanes),
                 emit.offset(operands.getPartial(), emit.add(scalarAt, 4 * space.partialSums())));
    });
    return {};
  }
};

} // namespace

void populateOutputPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                            CpuLowering &lowering) {
  patterns.add<InitOutput, Rescale, Weigh, AddOffsets, Accumulate, Flush>(
      converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Outputs: integer sums in registers, their fp32 sums in shared memory (GpuWorkspace), which become
// the partial result of the warp.
#include "codegen/conversion/gpu/Accumulators.h"

namespace mlir::kvq {
namespace {

class InitOutput : public GpuPattern<TileInitOutputOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileInitOutputOp op, Adaptor operands, WarpEmit &emit) const final {
    const FragmentMap &map = lowering.map(op.getRecord());
    Accumulators shape(emit, map, op.getQueries(), Value(), Value());
    Value output = emit.registers(shape.outputWords());
    Value sums = emit.offset(operands.getPartial(), emit.mul(emit.wide(emit.lane()), 4));
    emit.store(sums, output, 8);
    for (int64_t word = 2; word < shape.outputWords(); ++word)
      emit.put(emit.word(0), output, 4 * word);
    for (int64_t slice = 0; slice < shape.nTiles * 2 * shape.mTiles; ++slice)
      emit.put(emit.real(emit.f32(), 0), sums, 4 * slice * GpuWorkspace::kPitch);
    return {output};
  }
};

class Accumulate : public GpuPattern<TileAccumulateOp> {
  using GpuPattern::GpuPattern;

  /// The B register of 16 tokens: high and low bytes of the weights of four queries.
  static Value weightFragment(WarpEmit &emit, Value weights, int64_t place) {
    Value first = emit.loadWord(weights, 8 * place), second = emit.loadWord(weights, 8 * place + 4);
    return emit.transpose(emit.permute(first, second, 0x4051));
  }

  static Value codes(WarpEmit &emit, ArrayRef<SmallVector<Value>> vectors,
                     const RegisterPlace &place, int64_t bits) {
    Value word = vectors[place.vector][place.word];
    uint32_t slot = ((1u << bits) - 1) << (bits * place.slot);
    return bits == 8 ? word : emit.mask(word, slot * 0x01010101u);
  }

  SmallVector<Value> lower(TileAccumulateOp op, Adaptor operands, WarpEmit &emit) const final {
    const FragmentMap &map = lowering.map(op.getRecord());
    Accumulators sums(emit, map, op.getQueries(), Value(), operands.getOutput());
    for (int64_t tile = 0; tile < static_cast<int64_t>(op.getTiles()); tile += 2)
      pair(sums, operands.getTile(), operands.getOutput(), operands.getWeights(), tile,
           tile + 1 < static_cast<int64_t>(op.getTiles()));
    return {operands.getOutput()};
  }

  /// Two tiles fill the 32 tokens of an MMA; a last tile alone meets weights of 0.
  static void pair(Accumulators &sums, Value tiles, Value output, Value weights, int64_t tile,
                   bool both) {
    WarpEmit &emit = sums.emit;
    const FragmentMap &map = sums.map;
    int64_t bits = map.spec.v.bits;
    SmallVector<SmallVector<Value>> vectors[2];
    for (int half = 0; half < (both ? 2 : 1); ++half)
      for (const LaneVector &vector : map.valueVectors)
        vectors[half].push_back(
            loadLaneVector(emit, emit.offset(tiles, (tile + half) * map.tileBytes), vector));
    SmallVector<Value> b[2];
    for (int half = 0; half < 2; ++half)
      for (int64_t place = 0; place < sums.nTiles * sums.groups; ++place)
        b[half].push_back(
            half == 0 || both
                ? weightFragment(emit, weights, (tile + half) * sums.nTiles * sums.groups + place)
                : emit.word(0));
    for (int64_t mTile = 0; mTile < sums.mTiles; ++mTile) {
      std::array<Value, 4> a;
      for (int i = 0; i < 4; ++i)
        a[i] = i < 2 || both ? codes(emit, vectors[i / 2], map.valueTiles[mTile][i % 2], bits)
                             : emit.word(0);
      for (int64_t n = 0; n < sums.nTiles; ++n) {
        std::array<Value, 4> sum;
        for (int i = 0; i < 4; ++i)
          sum[i] = emit.loadWord(output, sums.sumAt(n, mTile) + 4 * i);
        int64_t place = n * sums.groups + sums.groupOf(mTile);
        emit.multiply(sum, a, b[0][place], b[1][place], /*aSigned=*/bits == 8, /*bSigned=*/false);
        for (int i = 0; i < 4; ++i)
          emit.put(sum[i], output, sums.sumAt(n, mTile) + 4 * i);
      }
    }
  }
};

class Flush : public GpuPattern<TileFlushOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileFlushOp op, Adaptor operands, WarpEmit &emit) const final {
    const FragmentMap &map = lowering.map(op.getRecord());
    Accumulators sums(emit, map, op.getQueries(), operands.getState(), operands.getOutput());
    GpuWorkspace space{static_cast<int64_t>(op.getQueries()), map.spec.k.dim, map.groups(true),
                       map.spec.v.dim};
    auto overTokens = [&](Value value) {
      return emit.butterfly(value, 28, [&](Value a, Value b) { return emit.fadd(a, b); });
    };
    Value lane = emit.lane();
    for (int64_t n = 0; n < sums.nTiles; ++n) {
      sums.move(n);
      SmallVector<Value> offsets;
      for (int64_t group = 0; group < sums.groups; ++group)
        offsets.push_back(overTokens(sums.movedOffsets(n, group)));
      sums.addToSums(n, [&](int64_t group) { return offsets[group]; });
      Value total = overTokens(sums.real(n, Accumulators::kMovedSum));
      Value reference = sums.real(n, Accumulators::kFrame);
      emit.when(emit.less(lane, emit.word(4)), [&] {
        Value at = emit.offset(operands.getPartial(), emit.mul(emit.wide(lane), 8));
        emit.put(reference, at, 4 * (space.warpMaxima() + 8 * n));
        emit.put(total, at, 4 * (space.warpMaxima() + 8 * n + 1));
      });
    }
    return {};
  }
};

} // namespace

void populateOutputPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                            GpuLowering &lowering) {
  patterns.add<InitOutput, Accumulate, Flush>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

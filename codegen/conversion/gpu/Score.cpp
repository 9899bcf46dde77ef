// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scores of the tiles of a step. A lane owns tokens g and g + 8 of each tile (r = 0, 1) for query
// 4 n + t of each n-tile. Params: [tile][r][group] (scale, offset), the sym form without offset.
// Dots: i32 [tile][n-tile][group][r]. Scores: ScoreWords.
#include "codegen/conversion/gpu/GpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <map>

namespace mlir::kvq {

SmallVector<Value> loadLaneVector(WarpEmit &emit, Value tile, const LaneVector &vector) {
  Value lane = emit.wide(emit.lane());
  Value address = emit.offset(emit.offset(tile, vector.offset), emit.mul(lane, vector.bytes));
  int64_t words = vector.bytes / 4;
  if (words == 1)
    return {emit.load(emit.i32(), address, 4)};
  Value loaded = emit.load(emit.vec(words, emit.i32()), address, vector.bytes);
  SmallVector<Value> result;
  for (int64_t word = 0; word < words; ++word)
    result.push_back(emit.lane(loaded, word));
  return result;
}

void endScores(WarpEmit &emit, const GpuWorkspace &space, Value query, int64_t tiles,
               Value scores) {
  const ScoreWords at{space.nTiles(), tiles};
  for (int64_t n = 0; n < space.nTiles(); ++n) {
    emit.put(emit.loadReal(query, 4 * (space.laneRow(n) + GpuWorkspace::stepWord())), scores,
             4 * at.step(n));
    emit.put(emit.loadWord(query, 4 * space.laneExists(n)), scores, 4 * at.exists(n));
  }
}

namespace {

/// The elements of one tile's parameters, each word loaded once.
class ParamWords {
public:
  ParamWords(WarpEmit &emit, Value tile, Type element)
      : emit(emit), tile(tile), element(element), row(emit.shr(emit.lane(), 2)) {}

  Value get(const ParamPlace &place) {
    if (element.isF32())
      return word(place.offset, place.rowStride, emit.f32());
    Value pair = word(place.offset / 4 * 4, place.rowStride, emit.i32());
    if (place.offset % 4)
      pair = emit.shr(pair, 16);
    return emit.widen(
        arith::TruncIOp::create(emit.builder, emit.loc, emit.builder.getI16Type(), pair), element);
  }

private:
  Value word(int64_t offset, int64_t rowStride, Type type) {
    Value &known = words[offset];
    if (!known) {
      Value at = emit.offset(emit.offset(tile, offset), emit.mul(emit.wide(row), rowStride));
      known = emit.load(type, at, 4);
    }
    return known;
  }

  WarpEmit &emit;
  Value tile;
  Type element;
  Value row;
  std::map<int64_t, Value> words;
};

class LoadParams : public GpuPattern<TileLoadParamsOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileLoadParamsOp op, Adaptor operands, WarpEmit &emit) const final {
    const FragmentMap &map = lowering.map(op.getRecord());
    TileSideAttr side = op.getRecord().getSide(op.getSide());
    bool key = op.getSide() == TileSideKind::key;
    const SideParams &params = map.params(key);
    int64_t groups = map.groups(key), tiles = op.getTiles();
    Value result = emit.registers(tiles * 4 * groups), zero = emit.real(emit.f32(), 0);
    Value valid = operands.getValid() ? emit.narrowWord(operands.getValid()) : Value();
    Value row = emit.shr(emit.lane(), 2);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      ParamWords words(emit, emit.offset(operands.getTile(), tile * map.tileBytes),
                       side.getParams());
      for (int r = 0; r < 2; ++r) {
        Value token = emit.add(row, emit.word(16 * tile + 8 * r));
        Value holds = valid ? emit.less(token, valid) : Value();
        auto put = [&](Value value, int64_t group, int64_t which) {
          emit.put(holds ? emit.select(holds, value, zero) : value, result,
                   4 * (((tile * 2 + r) * groups + group) * 2 + which));
        };
        for (int64_t group = 0; group < groups; ++group) {
          Value scale = words.get(params.scale[group][r]);
          put(scale, group, 0);
          if (side.getForm() == "sym")
            continue;
          Value offset = words.get(params.zero[group][r]);
          if (side.getForm() == "zero")
            offset = emit.fneg(emit.fmul(offset, scale));
          put(offset, group, 1);
        }
      }
    }
    return {result};
  }
};

class Dot : public GpuPattern<TileDotOp> {
  using GpuPattern::GpuPattern;

  /// One A register: the codes of one slot, 2-bit codes moved to the top of their bytes (times 64),
  /// 4-bit codes to the bottom.
  static Value extract(WarpEmit &emit, Value word, const RegisterPlace &place, int64_t bits) {
    if (bits == 8)
      return word;
    if (bits == 4)
      return emit.mask(place.slot ? emit.shr(word, 4) : word, 0x0f0f0f0f);
    auto top = [&](int slot) { return slot == 3 ? word : emit.shl(word, 6 - 2 * slot); };
    if (place.half < 0)
      return emit.mask(top(place.slot), 0xc0c0c0c0);
    Value both = emit.permute(top(place.slot), top(place.slot + 1), place.half ? 0x7632 : 0x5410);
    return emit.mask(both, 0xc0c0c0c0);
  }

  static void dotTile(WarpEmit &emit, const FragmentMap &map, Value tile, Value query,
                      int64_t nTiles, Value dots) {
    int64_t bits = map.spec.k.bits, groups = map.groups(/*key=*/true);
    int64_t steps = static_cast<int64_t>(map.keySteps.size()), perGroup = steps / groups;
    SmallVector<SmallVector<Value>> vectors;
    for (const LaneVector &vector : map.keyVectors)
      vectors.push_back(loadLaneVector(emit, tile, vector));
    for (int64_t group = 0; group < groups; ++group) {
      SmallVector<std::array<Value, 4>> sums(nTiles);
      for (std::array<Value, 4> &sum : sums)
        sum.fill(emit.word(0));
      for (int64_t step = group * perGroup; step < (group + 1) * perGroup; ++step) {
        std::array<Value, 4> a;
        for (int i = 0; i < 4; ++i) {
          const RegisterPlace &place = map.keySteps[step][i];
          a[i] = extract(emit, vectors[place.vector][place.word], place, bits);
        }
        for (int64_t n = 0; n < nTiles; ++n) {
          int64_t at = 4 * (n * 2 * steps + 2 * step);
          emit.multiply(sums[n], a, emit.loadWord(query, at), emit.loadWord(query, at + 4),
                        /*aSigned=*/bits == 8, /*bSigned=*/true);
        }
      }
      for (int64_t n = 0; n < nTiles; ++n)
        for (int r = 0; r < 2; ++r)
          emit.put(emit.add(emit.shl(sums[n][2 * r], 8), sums[n][2 * r + 1]), dots,
                   4 * ((n * groups + group) * 2 + r));
    }
  }

  SmallVector<Value> lower(TileDotOp op, Adaptor operands, WarpEmit &emit) const final {
    const FragmentMap &map = lowering.map(op.getRecord());
    int64_t nTiles = nTilesOf(op.getQueries()), words = nTiles * map.groups(true) * 2;
    Value dots = emit.registers(op.getTiles() * words);
    for (int64_t tile = 0; tile < static_cast<int64_t>(op.getTiles()); ++tile)
      dotTile(emit, map, emit.offset(operands.getTile(), tile * map.tileBytes), operands.getQuery(),
              nTiles, emit.offset(dots, 4 * tile * words));
    return {dots};
  }
};

class Score : public GpuPattern<TileScoreOp> {
  using GpuPattern::GpuPattern;

  SmallVector<Value> lower(TileScoreOp op, Adaptor operands, WarpEmit &emit) const final {
    const FragmentMap &map = lowering.map(op.getRecord());
    const GpuWorkspace space = gpuWorkspaceOf(op.getRecord(), op.getQueries());
    int64_t groups = space.keyGroups, nTiles = space.nTiles(), tiles = op.getTiles();
    const ScoreWords at{nTiles, tiles};
    bool symmetric = map.spec.k.form == ::kvq::ParameterForm::sym;
    Value scores = emit.registers(at.count());
    for (int64_t tile = 0; tile < tiles; ++tile)
      for (int64_t n = 0; n < nTiles; ++n)
        for (int r = 0; r < 2; ++r) {
          Value score;
          for (int64_t group = 0; group < groups; ++group) {
            int64_t param = 8 * ((tile * 2 + r) * groups + group);
            Value scale = emit.loadReal(operands.getParams(), param);
            Value integer = emit.loadWord(operands.getDots(),
                                          4 * (((tile * nTiles + n) * groups + group) * 2 + r));
            Value dot = arith::SIToFPOp::create(emit.builder, emit.loc, emit.f32(), integer);
            Value sum = emit.loadReal(operands.getQuery(),
                                      4 * (space.laneRow(n) + GpuWorkspace::sumWord(group)));
            if (symmetric) {
              Value middle = emit.real(emit.f32(), -codeMiddle(map.spec.k.bits));
              dot = emit.multiplyAdd(sum, middle, dot);
            } else {
              Value offset = emit.loadReal(operands.getParams(), param + 4);
              score = score ? emit.multiplyAdd(offset, sum, score) : emit.fmul(offset, sum);
            }
            score = score ? emit.multiplyAdd(scale, dot, score) : emit.fmul(scale, dot);
          }
          emit.put(score, scores, 4 * at.score(tile, n, r));
        }
    endScores(emit, space, operands.getQuery(), tiles, scores);
    return {scores};
  }
};

} // namespace

void populateScorePatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                           GpuLowering &lowering) {
  patterns.add<LoadParams, Dot, Score>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

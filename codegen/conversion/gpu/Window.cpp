// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Window rows (dialect/KVQTileWindowOps.td) on 16-bit matrix instructions, operands placed by
// WindowMap.h. Columns are those of the integer MMAs: 2 j + part belongs to query j of an n-tile.
//
//   window_softmax  [n-tile]: the maximum of log2 scores, and this lane's sum of p
//   window_output   f32 [n-tile][m-tile][4]: element 2 a + part is row g + 8 a, query t; the parts
//                   are added at the end
//   window_weights  B registers [n-tile][r]: tokens 2 t + 8 r and the next, column g
#include "codegen/conversion/gpu/Accumulators.h"
#include "codegen/conversion/gpu/WindowMap.h"

namespace mlir::kvq {
namespace {

using namespace window;

/// p of the largest score is 2^kRoom, so that p in f16 loses nothing above 2^-38 of it.
constexpr double kRoom = 14;

/// The two rows of a lane.
class LaneRows {
public:
  LaneRows(WarpEmit &emit, Value begin, Value end)
      : emit(emit), begin(emit.narrowWord(begin)), end(emit.narrowWord(end)) {}

  Value row(int64_t r) { return emit.add(emit.shr(emit.lane(), 2), emit.word(8 * r)); }

  /// Of the tile's rows, or with r from 2 on of those of the tiles that follow.
  Value counts(int64_t r) {
    Value mine = row(r);
    return emit.bitAnd(emit.less(mine, end), emit.less(emit.sub(begin, emit.word(1)), mine));
  }

  /// Whether some row of the tile counts; the same in all lanes.
  Value some() {
    Value inside = emit.bitAnd(emit.less(emit.word(0), end), emit.less(begin, emit.word(16)));
    return emit.bitAnd(inside, emit.less(begin, end));
  }

  /// `bytes` of lane t = 0 of row r; another row that counts stands in for one that does not.
  Value address(Value rows, int r, int64_t rowBytes, int64_t bytes) {
    Value last = emit.sub(end, emit.word(1)), read = row(r);
    read = emit.select(emit.less(read, last), read, last);
    read = emit.select(emit.less(read, begin), begin, read);
    // Of the tile even where no row counts.
    read = emit.bitAnd(read, emit.word(15));
    Value at = emit.add(emit.mul(emit.wide(read), rowBytes),
                        emit.mul(emit.wide(emit.bitAnd(emit.lane(), emit.word(3))), bytes));
    return emit.offset(rows, at);
  }

private:
  WarpEmit &emit;
  Value begin, end;
};

/// `words` words of a lane, in one load.
SmallVector<Value> loadWords(WarpEmit &emit, Value address, int64_t words) {
  Value loaded = emit.load(emit.vec(words, emit.i32()), address, 4 * words);
  SmallVector<Value> result;
  for (int64_t word = 0; word < words; ++word)
    result.push_back(emit.lane(loaded, word));
  return result;
}

class DotRows : public GpuPattern<TileDotRowsOp> {
  using GpuPattern::GpuPattern;

  using Sums = std::array<Value, 4>;

  /// The dots of the high and the low parts of four queries for each n-tile.
  static SmallVector<Sums> dots(WarpEmit &emit, ArrayRef<Value> addresses, Value query,
                                int64_t nTiles, int64_t steps, Type element) {
    Sums zero;
    zero.fill(emit.real(emit.f32(), 0));
    SmallVector<Sums> sums(nTiles, zero);
    for (int64_t step = 0; step < steps; ++step) {
      std::array<Value, 4> a;
      for (int r = 0; r < 2; ++r) {
        SmallVector<Value> words = loadWords(emit, emit.offset(addresses[r], keyByte(step)), 2);
        a[r] = words[0], a[r + 2] = words[1];
      }
      for (int64_t n = 0; n < nTiles; ++n) {
        Value bytes = emit.loadWord(query, 4 * (n * steps + step));
        emit.multiplyPairs(sums[n], a, emit.pairOfBytes(bytes, 0, element),
                           emit.pairOfBytes(bytes, 1, element), element);
      }
    }
    return sums;
  }

  SmallVector<Value> lower(TileDotRowsOp op, Adaptor operands, WarpEmit &emit) const final {
    const FragmentMap &map = lowering.map(op.getRecord());
    const GpuWorkspace space = gpuWorkspaceOf(op.getRecord(), op.getQueries());
    int64_t nTiles = space.nTiles(), dim = space.keyDim, steps = space.fragmentWords();
    LaneRows rows(emit, operands.getBegin(), operands.getEnd());
    SmallVector<Value> addresses;
    for (int r = 0; r < 2; ++r)
      addresses.push_back(rows.address(operands.getRows(), r, 2 * dim, kKeyBytes));
    SmallVector<Sums> sums =
        dots(emit, addresses, operands.getQuery(), nTiles, steps, op.getElement());
    // The step of a query is that of a dot of codes, which are taken times the multiplier.
    Value unit = emit.real(emit.f32(), double(keyMultiplier(map.spec.k.bits)));
    Value high = emit.real(emit.f32(), 256.0 * double(keyMultiplier(map.spec.k.bits)));
    const ScoreWords at{nTiles, /*tiles=*/1};
    Value scores = emit.registers(at.count());
    for (int64_t n = 0; n < nTiles; ++n)
      for (int r = 0; r < 2; ++r) {
        Value score = emit.multiplyAdd(sums[n][2 * r], high, emit.fmul(sums[n][2 * r + 1], unit));
        emit.put(score, scores, 4 * at.score(0, n, r));
      }
    endScores(emit, space, operands.getQuery(), /*tiles=*/1, scores);
    return {scores};
  }
};

class MaskRows : public GpuPattern<TileMaskRowsOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileMaskRowsOp op, Adaptor operands, WarpEmit &emit) const final {
    LaneRows rows(emit, operands.getBegin(), operands.getEnd());
    Value scores = operands.getScores(), none = emit.realBits(emit.f32(), 0xff800000);
    const ScoreWords words{nTilesOf(op.getQueries()), static_cast<int64_t>(op.getTiles())};
    for (int64_t half = 0; half < 2 * words.tiles; ++half) {
      Value counts = rows.counts(half);
      for (int64_t n = 0; n < words.nTiles; ++n) {
        int64_t at = 4 * words.score(half / 2, n, half % 2);
        emit.put(emit.select(counts, emit.loadReal(scores, at), none), scores, at);
      }
    }
    return {scores};
  }
};

/// State and outputs of a window.
class WindowSums {
public:
  WindowSums(WarpEmit &emit, const FragmentMap &map, int64_t queries, Value state, Value output)
      : emit(emit), nTiles(nTilesOf(queries)), mTiles(map.spec.v.dim / 16), state(state),
        output(output) {}

  Value maximum(int64_t n) { return emit.loadReal(state, 8 * n); }
  Value sum(int64_t n) { return emit.loadReal(state, 8 * n + 4); }
  void putMaximum(Value value, int64_t n) { emit.put(value, state, 8 * n); }
  void putSum(Value value, int64_t n) { emit.put(value, state, 8 * n + 4); }
  Value get(int64_t n, int64_t mTile, int i) { return emit.loadReal(output, at(n, mTile, i)); }
  void put(Value value, int64_t n, int64_t mTile, int i) {
    emit.put(value, output, at(n, mTile, i));
  }

  WarpEmit &emit;
  int64_t nTiles, mTiles;

private:
  int64_t at(int64_t n, int64_t mTile, int i) { return 4 * ((n * mTiles + mTile) * 4 + i); }
  Value state, output;
};

class InitWindow : public GpuPattern<TileInitWindowOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileInitWindowOp op, Adaptor, WarpEmit &emit) const final {
    const FragmentMap &map = lowering.map(op.getRecord());
    int64_t nTiles = nTilesOf(op.getQueries()), mTiles = map.spec.v.dim / 16;
    Value state = emit.registers(2 * nTiles), output = emit.registers(nTiles * mTiles * 4);
    WindowSums sums(emit, map, op.getQueries(), state, output);
    Value zero = emit.real(emit.f32(), 0);
    for (int64_t n = 0; n < nTiles; ++n) {
      // Finite, so that the difference of two maxima is a number.
      sums.putMaximum(emit.real(emit.f32(), Accumulators::kFirstReference), n);
      sums.putSum(zero, n);
      for (int64_t mTile = 0; mTile < mTiles; ++mTile)
        for (int i = 0; i < 4; ++i)
          sums.put(zero, n, mTile, i);
    }
    return {state, output};
  }
};

class WeighWindow : public GpuPattern<TileWeighWindowOp> {
  using GpuPattern::GpuPattern;

  /// Raises the maximum of n-tile `n` to `most`; outputs are multiplied where some query's rose.
  static void raise(WindowSums &sums, int64_t n, Value most) {
    WarpEmit &emit = sums.emit;
    Value old = sums.maximum(n), next = emit.maxNumber(old, most);
    Value factor = emit.exp2(emit.fsub(old, next));
    sums.putMaximum(next, n);
    sums.putSum(emit.fmul(sums.sum(n), factor), n);
    emit.when(emit.any(emit.fless(old, next)), [&] {
      for (int64_t mTile = 0; mTile < sums.mTiles; ++mTile)
        for (int i = 0; i < 4; ++i)
          sums.put(emit.fmul(sums.get(n, mTile, i), factor), n, mTile, i);
    });
  }

  /// The B register of the 8 tokens whose p the lanes hold.
  static Value fragment(WarpEmit &emit, Value p, Type element) {
    Value high = emit.lowOf(emit.pairOf(p, emit.real(emit.f32(), 0), element), element);
    return emit.transpose(emit.pairOf(high, emit.fsub(p, high), element));
  }

  SmallVector<Value> lower(TileWeighWindowOp op, Adaptor operands, WarpEmit &emit) const final {
    WindowSums sums(emit, lowering.map(op.getRecord()), op.getQueries(), operands.getState(),
                    operands.getOutput());
    Value none = emit.realBits(emit.f32(), 0xff800000);
    Value weights = emit.registers(2 * sums.nTiles);
    const ScoreWords at{sums.nTiles, /*tiles=*/1};
    for (int64_t n = 0; n < sums.nTiles; ++n) {
      Value step = emit.loadReal(operands.getScores(), 4 * at.step(n));
      std::array<Value, 2> scores, masked;
      Value most = none;
      for (int r = 0; r < 2; ++r) {
        scores[r] = emit.loadReal(operands.getScores(), 4 * at.score(0, n, r));
        masked[r] = emit.fequal(scores[r], none);
        // The step of a query that does not exist may be 0.
        most = emit.maxNumber(most, emit.select(masked[r], none, emit.fmul(scores[r], step)));
      }
      most = emit.butterfly(most, 28, [&](Value a, Value b) { return emit.maxNumber(a, b); });
      raise(sums, n, most);
      Value frame = emit.fsub(emit.real(emit.f32(), kRoom), sums.maximum(n));
      for (int r = 0; r < 2; ++r) {
        Value p = emit.exp2(emit.multiplyAdd(scores[r], step, frame));
        p = emit.select(masked[r], emit.real(emit.f32(), 0), p);
        sums.putSum(emit.fadd(sums.sum(n), p), n);
        emit.put(fragment(emit, p, op.getElement()), weights, 4 * (2 * n + r));
      }
    }
    return {operands.getState(), operands.getOutput(), weights};
  }
};

class AccumulateWindow : public GpuPattern<TileAccumulateWindowOp> {
  using GpuPattern::GpuPattern;

  static void accumulate(WindowSums &sums, ArrayRef<Value> addresses, Value weights, Type element) {
    WarpEmit &emit = sums.emit;
    SmallVector<Value> words[2];
    for (int64_t mTile = 0; mTile < sums.mTiles; ++mTile) {
      if (mTile % 2 == 0)
        for (int r = 0; r < 2; ++r)
          words[r] = loadWords(emit, emit.offset(addresses[r], valueByte(mTile)), 4);
      std::array<Value, 4> a;
      for (int i = 0; i < 4; ++i)
        a[i] = emit.transpose(words[i / 2][valueWord(mTile, i % 2)]);
      for (int64_t n = 0; n < sums.nTiles; ++n) {
        std::array<Value, 4> sum;
        for (int i = 0; i < 4; ++i)
          sum[i] = sums.get(n, mTile, i);
        emit.multiplyPairs(sum, a, emit.loadWord(weights, 8 * n), emit.loadWord(weights, 8 * n + 4),
                           element);
        for (int i = 0; i < 4; ++i)
          sums.put(sum[i], n, mTile, i);
      }
    }
  }

  SmallVector<Value> lower(TileAccumulateWindowOp op, Adaptor operands,
                           WarpEmit &emit) const final {
    const FragmentMap &map = lowering.map(op.getRecord());
    WindowSums sums(emit, map, op.getQueries(), Value(), operands.getOutput());
    LaneRows rows(emit, operands.getBegin(), operands.getEnd());
    SmallVector<Value> addresses;
    for (int r = 0; r < 2; ++r)
      addresses.push_back(rows.address(operands.getRows(), r, 2 * map.spec.v.dim, kValueBytes));
    // Where no row counts, stale bytes were read, of which weights of 0 make no numbers.
    emit.when(rows.some(),
              [&] { accumulate(sums, addresses, operands.getWeights(), op.getElement()); });
    return {operands.getOutput()};
  }
};

class EnterWindow : public GpuPattern<TileEnterWindowOp> {
  using GpuPattern::GpuPattern;

  /// Byte in the fp32 sums of a warp (GpuWorkspace) of the channel that g = 0 has, and what a lane
  /// adds.
  static int64_t sumByte(int64_t slices, int64_t channel) {
    return 4 * ((slices + channel / 8) * GpuWorkspace::kPitch + channel % 8 * 4);
  }
  static Value laneByte(WarpEmit &emit) {
    Value lane = emit.lane(), g = emit.shr(lane, 2);
    auto of = [&](Value value, int64_t bytes) { return emit.mul(emit.wide(value), bytes); };
    Value upper = of(emit.shr(g, 1), sumByte(0, laneChannel(2)));
    Value lower = of(emit.bitAnd(g, emit.word(1)), sumByte(0, laneChannel(1)));
    return emit.add(emit.add(upper, lower), of(emit.bitAnd(lane, emit.word(3)), 4));
  }

  SmallVector<Value> lower(TileEnterWindowOp op, Adaptor operands, WarpEmit &emit) const final {
    const FragmentMap &map = lowering.map(op.getRecord());
    WindowSums window(emit, map, op.getQueries(), operands.getWindow(), operands.getSums());
    Accumulators codes(emit, map, op.getQueries(), operands.getState(), operands.getOutput());
    // tile.init_output left the address of the lane's own sums.
    Value own = emit.load(emit.pointer(), operands.getOutput(), 8);
    Value lane = emit.mul(emit.wide(emit.lane()), 4);
    Value sums = emit.offset(own, emit.sub(laneByte(emit), lane));
    // Lanes write sums of each other, which their owners cleared before and read after.
    emit.syncWarp();
    for (int64_t n = 0; n < window.nTiles; ++n) {
      Value frame = emit.fadd(window.maximum(n), emit.real(emit.f32(), -kRoom));
      codes.put(frame, n, Accumulators::kFrame);
      codes.put(window.sum(n), n, Accumulators::kMovedSum);
      for (int64_t mTile = 0; mTile < window.mTiles; ++mTile)
        for (int a = 0; a < 2; ++a) {
          Value sum = emit.fadd(window.get(n, mTile, 2 * a), window.get(n, mTile, 2 * a + 1));
          emit.put(sum, sums, sumByte(n * 2 * window.mTiles, valueChannel(mTile, a)));
        }
    }
    emit.syncWarp();
    return {operands.getState(), operands.getOutput()};
  }
};

} // namespace

void populateWindowPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                            GpuLowering &lowering) {
  patterns.add<DotRows, MaskRows, InitWindow, WeighWindow, AccumulateWindow, EnterWindow>(
      converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax with integer weights. Weights: [tile][n-tile][group][r], each the float 2^23 + weight,
// whose low 16 bits are the weight (kernels.md section 5).
#include "codegen/conversion/gpu/Accumulators.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>

namespace mlir::kvq {
namespace {

constexpr double kMagic = 8388608; // 2^23
constexpr uint32_t kMagicBits = 0x4b000000;
constexpr double kMaxWeight = 65535;
/// The largest weight of a step keeps at least 11 of its 16 bits: behind one dominating token a
/// flat tail would else be rounded away (kernels.md section 8.1). A new reference puts it at 14.
/// Many queries find one among them that falls low more often, and average more of what it loses.
constexpr double kLeastBits = 11, kLeastBitsOfMany = 10, kNewBits = 14, kMostBits = 15.9999;
constexpr double kNoScore = -3e38;
/// A scale of 0 (a constant row) must not let p grow without bound; its codes are 0, so any weight
/// does.
constexpr double kLeastScale = 0x1p-60;

class InitSoftmax : public GpuPattern<TileInitSoftmaxOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileInitSoftmaxOp op, Adaptor, WarpEmit &emit) const final {
    int64_t nTiles = nTilesOf(op.getQueries());
    int64_t groups = op.getRecord() ? lowering.map(*op.getRecord()).groups(/*key=*/false) : 1;
    int64_t words = Accumulators::stateWords(nTiles, groups);
    int64_t fields = Accumulators::fields(groups);
    Value state = emit.registers(words);
    for (int64_t word = 0; word < words; ++word) {
      int64_t field = word < nTiles * fields ? word % fields : -1;
      bool reference = field == Accumulators::kReference || field == Accumulators::kFrame;
      emit.put(emit.real(emit.f32(), reference ? Accumulators::kFirstReference : 0), state,
               4 * word);
    }
    return {state};
  }
};

/// One attempt at the weights of a step, and what it adds to the state.
class Weigher {
public:
  Weigher(Accumulators &sums, int64_t tiles, Value scores, Value params, Value weights)
      : sums(sums), emit(sums.emit), tiles(tiles), words{sums.nTiles, tiles}, scores(scores),
        params(params), weights(weights),
        pending(emit.registers(sums.nTiles * (1 + 3 * sums.groups))), offsets(!sums.symmetric()) {
    for (int64_t n = 0; n < sums.nTiles; ++n)
      moves.emplace_back(emit, emit.word(0));
  }

  /// Writes weights and pending sums. The largest weight of each n-tile in this lane, plus 2^23.
  SmallVector<Value> weigh() {
    SmallVector<Value> tops;
    for (int64_t n = 0; n < sums.nTiles; ++n) {
      Value l, top, m = emit.fneg(sums.real(n, Accumulators::kReference));
      SmallVector<Value> z(sums.groups), exact(sums.groups), w(sums.groups);
      auto add = [&](Value &sum, Value value) { sum = sum ? emit.add(sum, value) : value; };
      for (int64_t tile = 0; tile < tiles; ++tile)
        for (int r = 0; r < 2; ++r) {
          Value p = emit.exp2(emit.multiplyAdd(score(tile, n, r), step(n), m));
          l = l ? emit.fadd(l, p) : p;
          for (int64_t group = 0; group < sums.groups; ++group) {
            Value s = scale(tile, r, group);
            Value x = emit.multiplyAdd(p, s, emit.real(emit.f32(), kMagic));
            Value bits = emit.bitcast(x, emit.i32());
            emit.put(bits, weights, 4 * (((tile * sums.nTiles + n) * sums.groups + group) * 2 + r));
            top = top ? emit.maxNumber(top, x) : x;
            add(w[group], bits);
            auto addProduct = [&](Value &sum, Value factor) {
              sum = sum ? emit.multiplyAdd(p, factor, sum) : emit.fmul(p, factor);
            };
            addProduct(exact[group], s);
            if (offsets)
              addProduct(z[group], param(tile, r, group, 1));
          }
        }
      emit.put(l, pending, at(n, 0));
      for (int64_t group = 0; group < sums.groups; ++group) {
        emit.put(offsets ? z[group] : emit.real(emit.f32(), 0), pending, at(n, 1 + group));
        emit.put(exact[group], pending, at(n, 1 + sums.groups + group));
        emit.put(w[group], pending, at(n, 1 + 2 * sums.groups + group));
      }
      tops.push_back(top);
    }
    return tops;
  }

  /// Whether some weight does not fit, or the largest weight of some query has too few bits; notes
  /// which n-tiles it concerns.
  Value mustMove(ArrayRef<Value> tops) {
    Value full = emit.less(emit.word(Accumulators::kMaxTokens - 16 * tiles), sums.tokens());
    Value query = emit.bitAnd(emit.lane(), emit.word(3)), any;
    Value bit = arith::ShLIOp::create(emit.builder, emit.loc, emit.word(1), query);
    for (auto [n, top] : llvm::enumerate(tops)) {
      Value all = exist(n);
      Value large = emit.fgreater(top, emit.real(emit.f32(), kMagic + kMaxWeight));
      large = emit.bitAnd(large, emit.less(emit.word(0), emit.bitAnd(all, bit)));
      // Lanes 4 g + t of a query t: does one of them reach the bits?
      Value lanes = emit.ballot(
          emit.fgreater(top, emit.real(emit.f32(), kMagic + std::exp2(leastBits()) - 1)));
      lanes = emit.bitOr(lanes, emit.shr(lanes, 16));
      lanes = emit.bitOr(lanes, emit.shr(lanes, 8));
      lanes = emit.bitAnd(emit.bitOr(lanes, emit.shr(lanes, 4)), all);
      Value move = emit.bitOr(emit.any(emit.bitOr(large, full)), emit.less(lanes, all));
      // LLVM does not promote every i1 in memory; a word it does.
      moves[n].set(emit.select(move, emit.word(1), emit.word(0)));
      any = any ? emit.bitOr(any, move) : move;
    }
    return any;
  }

  /// Moves the sums of the n-tiles that mustMove noted, and takes a new reference where the old one
  /// does not suit the step.
  void moveReferences() {
    for (int64_t n = 0; n < sums.nTiles; ++n)
      emit.when(emit.equal(moves[n].get(), emit.word(1)), [&] { moveReference(n); });
    sums.putTokens(emit.word(0));
  }

  void moveReference(int64_t n) {
    Value most = emit.real(emit.f32(), kNoScore);
    for (int64_t tile = 0; tile < tiles; ++tile)
      for (int r = 0; r < 2; ++r)
        for (int64_t group = 0; group < sums.groups; ++group) {
          Value s = emit.log2(scale(tile, r, group));
          most = emit.maxNumber(most, emit.multiplyAdd(score(tile, n, r), step(n), s));
        }
    most = emit.butterfly(most, 28, [&](Value a, Value b) { return emit.maxNumber(a, b); });
    sums.move(n);
    Value m = sums.real(n, Accumulators::kReference);
    auto below = [&](double bits) { return emit.fadd(most, emit.real(emit.f32(), -bits)); };
    Value unfit = emit.bitOr(emit.fgreater(below(kMostBits), m), emit.fless(below(leastBits()), m));
    // A step may be past the end of the sequence as a whole.
    unfit = emit.bitAnd(unfit, emit.fgreater(most, emit.real(emit.f32(), kNoScore)));
    sums.put(emit.select(unfit, below(kNewBits), m), n, Accumulators::kReference);
  }

  void commit() {
    // Each of the 2 * tiles floats brought the bits of 2^23 into the integer sum.
    Value magic = emit.word(int32_t(uint32_t(2 * tiles) * kMagicBits));
    for (int64_t n = 0; n < sums.nTiles; ++n) {
      Value l = emit.loadReal(pending, at(n, 0));
      sums.put(emit.fadd(sums.real(n, Accumulators::kSum), l), n, Accumulators::kSum);
      for (int64_t group = 0; group < sums.groups; ++group) {
        if (offsets)
          sums.putOffsets(
              emit.fadd(sums.offsets(n, group), emit.loadReal(pending, at(n, 1 + group))), n,
              group);
        Value exact = emit.loadReal(pending, at(n, 1 + sums.groups + group));
        sums.putExactWeights(emit.fadd(sums.exactWeights(n, group), exact), n, group);
        Value w = emit.sub(emit.loadWord(pending, at(n, 1 + 2 * sums.groups + group)), magic);
        sums.putWeightSum(emit.add(sums.weightSum(n, group), w), n, group);
      }
    }
    sums.putTokens(emit.add(sums.tokens(), emit.word(16 * tiles)));
  }

private:
  double leastBits() const { return sums.nTiles > 2 ? kLeastBitsOfMany : kLeastBits; }
  int64_t at(int64_t n, int64_t field) const { return 4 * (n * (1 + 3 * sums.groups) + field); }
  Value score(int64_t tile, int64_t n, int r) {
    return emit.loadReal(scores, 4 * words.score(tile, n, r));
  }
  Value step(int64_t n) { return emit.loadReal(scores, 4 * words.step(n)); }
  /// A bit for each query of the n-tile that exists; columns of the others hold anything.
  Value exist(int64_t n) { return emit.loadWord(scores, 4 * words.exists(n)); }
  Value param(int64_t tile, int r, int64_t group, int64_t which) {
    return emit.loadReal(params, 4 * (((tile * 2 + r) * sums.groups + group) * 2 + which));
  }
  Value scale(int64_t tile, int r, int64_t group) {
    return emit.maxNumber(param(tile, r, group, 0), emit.real(emit.f32(), kLeastScale));
  }
  Accumulators &sums;
  WarpEmit &emit;
  int64_t tiles;
  ScoreWords words;
  Value scores, params, weights, pending;
  bool offsets;
  SmallVector<Variable> moves; ///< of each n-tile
};

class WeighInteger : public GpuPattern<TileWeighIntegerOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileWeighIntegerOp op, Adaptor operands, WarpEmit &emit) const final {
    Accumulators sums(emit, lowering.map(op.getRecord()), op.getQueries(), operands.getState(),
                      operands.getOutput());
    int64_t tiles = op.getTiles();
    Value weights = emit.registers(tiles * sums.nTiles * sums.groups * 2);
    Weigher weigher(sums, tiles, operands.getScores(), operands.getParams(), weights);
    // A new reference suits by construction; the count only guards against values without order.
    Variable attempts(emit, emit.word(0));
    emit.whileTrue(
        [&] {
          Value move = weigher.mustMove(weigher.weigh());
          return emit.unlikely(emit.bitAnd(move, emit.less(attempts.get(), emit.word(2))));
        },
        [&] {
          weigher.moveReferences();
          attempts.set(emit.add(attempts.get(), emit.word(1)));
        });
    weigher.commit();
    return {operands.getState(), operands.getOutput(), weights};
  }
};

} // namespace

void populateSoftmaxPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                             GpuLowering &lowering) {
  patterns.add<InitSoftmax, WeighInteger>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

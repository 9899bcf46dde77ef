// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax with integer weights. Weights: [tile][n-tile][group][r], each the float 2^23 + weight,
// whose low 16 bits are the weight (kernels.md section 5).
#include "codegen/conversion/gpu/Accumulators.h"

namespace mlir::kvq {
namespace {

constexpr double kMagic = 8388608; // 2^23
constexpr uint32_t kMagicBits = 0x4b000000;
constexpr double kMaxWeight = 65535;
/// A raised reference leaves two bits of the weights free.
constexpr double kHeadRoom = 13.9999, kLimit = 15.9999;
/// A scale of 0 (a constant row) must not let p grow without bound; its codes are 0, so any weight
/// does.
constexpr double kLeastScale = 0x1p-60;

class InitSoftmax : public GpuPattern<TileInitSoftmaxOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileInitSoftmaxOp op, Adaptor, WarpEmit &emit) const final {
    int64_t nTiles = (op.getQueries() + 3) / 4;
    int64_t groups = op.getRecord() ? lowering.map(*op.getRecord()).groups(/*key=*/false) : 1;
    int64_t words = Accumulators::stateWords(nTiles, groups), perTile = 2 + 2 * groups;
    Value state = emit.registers(words);
    for (int64_t word = 0; word < words; ++word)
      emit.put(word % perTile == 0 && word / perTile < nTiles
                   ? emit.real(emit.f32(), Accumulators::kFirstReference)
                   : emit.real(emit.f32(), 0),
               state, 4 * word);
    return {state};
  }
};

/// One attempt at the weights of a step, and what it adds to the state.
class Weigher {
public:
  Weigher(Accumulators &sums, int64_t tiles, Value scores, Value params, Value weights)
      : sums(sums), emit(sums.emit), tiles(tiles), scores(scores), params(params),
        weights(weights), pending(emit.registers(sums.nTiles * (1 + 2 * sums.groups))),
        offsets(sums.map.spec.v.form != ::kvq::ParameterForm::sym) {}

  /// Writes weights and pending sums; the largest weight plus 2^23.
  Value weigh() {
    Value top = emit.real(emit.f32(), 0);
    for (int64_t n = 0; n < sums.nTiles; ++n) {
      Value l, m = emit.fneg(sums.real(n, 0));
      SmallVector<Value> z(sums.groups), w(sums.groups);
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
            top = emit.maxNumber(top, x);
            add(w[group], bits);
            if (!offsets)
              continue;
            Value c = centre(tile, r, group);
            z[group] = z[group] ? emit.multiplyAdd(p, c, z[group]) : emit.fmul(p, c);
          }
        }
      emit.put(l, pending, at(n, 0));
      for (int64_t group = 0; group < sums.groups; ++group) {
        emit.put(offsets ? z[group] : emit.real(emit.f32(), 0), pending, at(n, 1 + group));
        emit.put(w[group], pending, at(n, 1 + sums.groups + group));
      }
    }
    return top;
  }

  /// Raises the references that are too low and brings the sums to them.
  void raise() {
    for (int64_t n = 0; n < sums.nTiles; ++n) {
      Value most = emit.real(emit.f32(), -3e38);
      for (int64_t tile = 0; tile < tiles; ++tile)
        for (int r = 0; r < 2; ++r)
          for (int64_t group = 0; group < sums.groups; ++group) {
            Value s = emit.log2(scale(tile, r, group));
            most = emit.maxNumber(most, emit.multiplyAdd(score(tile, n, r), step(n), s));
          }
      most = emit.butterfly(most, 28, [&](Value a, Value b) { return emit.maxNumber(a, b); });
      Value m = sums.real(n, 0);
      auto below = [&](double bits) { return emit.fadd(most, emit.real(emit.f32(), -bits)); };
      Value raised = emit.select(emit.fgreater(below(kLimit), m), below(kHeadRoom), m);
      Value factor = emit.exp2(emit.fsub(m, raised));
      sums.put(raised, n, 0);
      sums.put(emit.fmul(sums.real(n, 1), factor), n, 1);
      for (int64_t group = 0; group < sums.groups; ++group) {
        sums.put(emit.fmul(sums.centredOffset(n, group), factor), n, 2 + group);
        sums.putWeightSum(emit.word(0), n, group);
      }
      sums.moveSums(n, factor, nullptr);
    }
    sums.putTokens(emit.word(0));
  }

  void commit() {
    // Each of the 2 * tiles floats brought the bits of 2^23 into the integer sum.
    Value magic = emit.word(int32_t(uint32_t(2 * tiles) * kMagicBits));
    for (int64_t n = 0; n < sums.nTiles; ++n) {
      sums.put(emit.fadd(sums.real(n, 1), emit.loadReal(pending, at(n, 0))), n, 1);
      for (int64_t group = 0; group < sums.groups; ++group) {
        if (offsets)
          sums.put(emit.fadd(sums.real(n, 2 + group), emit.loadReal(pending, at(n, 1 + group))), n,
                   2 + group);
        Value w = emit.sub(emit.loadWord(pending, at(n, 1 + sums.groups + group)), magic);
        sums.putWeightSum(emit.add(sums.weightSum(n, group), w), n, group);
      }
    }
    sums.putTokens(emit.add(sums.tokens(), emit.word(16 * tiles)));
  }

private:
  int64_t at(int64_t n, int64_t field) const { return 4 * (n * (1 + 2 * sums.groups) + field); }
  Value score(int64_t tile, int64_t n, int r) {
    return emit.loadReal(scores, 4 * ((tile * sums.nTiles + n) * 2 + r));
  }
  Value step(int64_t n) { return emit.loadReal(scores, 4 * (2 * tiles * sums.nTiles + n)); }
  Value param(int64_t tile, int r, int64_t group, int64_t which) {
    return emit.loadReal(params, 4 * (((tile * 2 + r) * sums.groups + group) * 2 + which));
  }
  Value scale(int64_t tile, int r, int64_t group) {
    return emit.maxNumber(param(tile, r, group, 0), emit.real(emit.f32(), kLeastScale));
  }
  Value centre(int64_t tile, int r, int64_t group) {
    return emit.multiplyAdd(scale(tile, r, group), emit.real(emit.f32(), sums.middle()),
                            param(tile, r, group, 1));
  }

  Accumulators &sums;
  WarpEmit &emit;
  int64_t tiles;
  Value scores, params, weights, pending;
  bool offsets;
};

class WeighInteger : public GpuPattern<TileWeighIntegerOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileWeighIntegerOp op, Adaptor operands, WarpEmit &emit) const final {
    Accumulators sums(emit, lowering.map(op.getRecord()), op.getQueries(), operands.getState(),
                      operands.getOutput());
    int64_t tiles = op.getTiles();
    Value weights = emit.registers(tiles * sums.nTiles * sums.groups * 2);
    Weigher weigher(sums, tiles, operands.getScores(), operands.getParams(), weights);
    // A raised reference fits by construction; the count only guards against values without order.
    Variable attempts(emit, emit.word(0));
    emit.whileTrue(
        [&] {
          Value top = weigher.weigh();
          Value large = emit.fgreater(top, emit.real(emit.f32(), kMagic + kMaxWeight));
          Value full = emit.less(emit.word(Accumulators::kMaxTokens - 16 * tiles), sums.tokens());
          Value again = emit.any(emit.bitOr(large, full));
          return emit.unlikely(
              emit.bitAnd(again, emit.less(attempts.get(), emit.word(2))));
        },
        [&] {
          weigher.raise();
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

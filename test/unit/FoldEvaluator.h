// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executes a fold plan over any exact number type, as a kernel would: channel operations are
// applied to the query or to accumulators, token factors to scores or probabilities, and a factor
// is read through the axes of its place only. A factor in a wrong place is therefore read wrongly,
// which is what lets a test reject the plan.
#pragma once

#include "passes/analysis/Folding.h"

#include <functional>

namespace kvqtest {

using mlir::kvq::folding::Composition;
using mlir::kvq::folding::Factor;
using mlir::kvq::folding::Place;
using mlir::kvq::folding::Plan;
using mlir::kvq::folding::Term;

/// Values of the factors of a composition. Indices along axes that a factor does not vary over are
/// ignored.
template <typename Number> struct FoldValues {
  int tokens = 0;
  std::function<Number(int token, int channel)> code;
  std::function<Number(int factor, int token, int tile, int group, int channel)> value;
  /// Entry of the block-diagonal matrix R of a rotation.
  std::function<Number(int factor, int tile, int row, int column)> rotation;
  std::function<Number(int factor, const Number &parameter, const Number &x)> map;
};

template <typename Number> class FoldEvaluator {
public:
  using Vector = std::vector<Number>;

  FoldEvaluator(const Plan &plan, const FoldValues<Number> &values)
      : plan(plan), composition(plan.composition), values(values) {}

  /// Row t by definition: every factor applied to the code, in order.
  Vector dequantize(int token) const {
    Vector row(composition.dim);
    for (int d = 0; d < composition.dim; ++d)
      row[d] = values.code(token, d);
    for (int i = 0; i < static_cast<int>(composition.factors.size()); ++i)
      applyElementwise(i, token, row);
    return row;
  }

  struct Scores {
    Vector kept;    ///< what the kernel computes, per token
    Vector dropped; ///< what was dropped, per token; one number when the plan is right
  };

  Scores scores(const Vector &query) const {
    Scores result{Vector(values.tokens, Number(0)), Vector(values.tokens, Number(0))};
    for (const Term &term : executedTerms()) {
      bool dropped = isDropped(term);
      Vector fixed = query;
      for (auto i = term.fixed.rbegin(); i != term.fixed.rend(); ++i)
        applyToQuery(*i, 0, fixed);
      for (int t = 0; t < values.tokens; ++t) {
        Vector q = fixed;
        for (auto i = term.tile.rbegin(); i != term.tile.rend(); ++i)
          applyToQuery(*i, t / composition.tile, q);
        Vector row = payload(term, t);
        Number sum(0);
        for (int d = 0; d < composition.dim; ++d)
          sum = sum + tokenFactor(term, t, groupOf(d)) * q[d] * row[d];
        Number &target = (dropped ? result.dropped : result.kept)[t];
        target = target + sum;
      }
    }
    return result;
  }

  /// sum_t p_t x_t / denominator
  Vector output(const Vector &p, const Number &denominator) const {
    Vector result(composition.dim, Number(0));
    for (const Term &term : executedTerms()) {
      Vector sum(composition.dim, Number(0));
      for (int first = 0; first < values.tokens; first += composition.tile) {
        Vector accumulator(composition.dim, Number(0));
        for (int t = first; t < std::min(first + composition.tile, values.tokens); ++t) {
          Vector row = payload(term, t);
          for (int d = 0; d < composition.dim; ++d)
            accumulator[d] = accumulator[d] + p[t] * tokenFactor(term, t, groupOf(d)) * row[d];
        }
        for (int i : term.tile)
          applyToRow(i, first / composition.tile, accumulator);
        for (int d = 0; d < composition.dim; ++d)
          sum[d] = sum[d] + accumulator[d];
      }
      for (int i : term.fixed)
        applyToRow(i, 0, sum);
      for (int d = 0; d < composition.dim; ++d)
        result[d] = result[d] + sum[d] / denominator;
    }
    return result;
  }

private:
  const Plan &plan;
  const Composition &composition;
  const FoldValues<Number> &values;

  /// A starting value of the accumulator takes whatever factors the codes take.
  std::vector<Term> executedTerms() const {
    std::vector<Term> terms = termsOf(plan);
    for (Term &term : terms)
      if (term.offset >= 0 && plan.places[term.offset] == Place::accumulator) {
        int offset = term.offset;
        term = terms.back();
        term.offset = offset;
        term.payload.clear();
      }
    return terms;
  }

  int groupOf(int channel) const { return composition.group ? channel / composition.group : 0; }

  bool isDropped(const Term &term) const {
    return term.offset >= 0 && (plan.places[term.offset] == Place::dropped ||
                                plan.places[term.offset] == Place::log_sum_exp);
  }

  /// The value of a factor as seen from its place: along an axis that the place cannot tell apart,
  /// the first one.
  Number seen(int i, int token, int tile, int channel) const {
    using namespace mlir::kvq::folding;
    Axes axes = placeAxes(plan.places[i]);
    int group = axes & axisGroup ? groupOf(channel) : 0;
    tile = axes & axisTile ? tile : 0;
    return values.value(i, axes & axisToken ? token : tile * composition.tile, tile, group,
                        axes & axisChannel ? channel : group * composition.group);
  }

  Number tokenFactor(const Term &term, int token, int group) const {
    Number product(1);
    for (int i : term.token)
      if (composition.factors[i].kind == Factor::Kind::scale)
        product = product * seen(i, token, token / composition.tile, group * composition.group);
    return product;
  }

  Vector payload(const Term &term, int token) const {
    Vector row(composition.dim);
    for (int d = 0; d < composition.dim; ++d)
      row[d] = term.offset < 0 ? values.code(token, d)
                               : seen(term.offset, token, token / composition.tile, d);
    for (int i : term.payload)
      applyElementwise(i, token, row);
    return row;
  }

  void applyElementwise(int i, int token, Vector &row) const {
    const Factor &factor = composition.factors[i];
    int tile = token / composition.tile;
    if (factor.kind == Factor::Kind::rotation) {
      row = multiply(i, tile, row, factor.transposed);
      return;
    }
    for (int d = 0; d < composition.dim; ++d) {
      Number value = values.value(i, token, tile, groupOf(d), d);
      if (factor.kind == Factor::Kind::scale)
        row[d] = row[d] * value;
      else if (factor.kind == Factor::Kind::offset)
        row[d] = row[d] + value;
      else
        row[d] = values.map(i, value, row[d]);
    }
  }

  /// A channel operation M on a row: row M.
  void applyToRow(int i, int tile, Vector &row) const { applyOperation(i, tile, row, false); }
  /// The same operation seen from the other side of the dot product: q M^T.
  void applyToQuery(int i, int tile, Vector &query) const { applyOperation(i, tile, query, true); }

  void applyOperation(int i, int tile, Vector &x, bool transpose) const {
    const Factor &factor = composition.factors[i];
    if (factor.kind == Factor::Kind::rotation) {
      int seenTile =
          mlir::kvq::folding::placeAxes(plan.places[i]) & mlir::kvq::folding::axisTile ? tile : 0;
      x = multiply(i, seenTile, x, factor.transposed != transpose);
    } else if (factor.kind == Factor::Kind::scale) {
      for (int d = 0; d < composition.dim; ++d)
        x[d] = x[d] * seen(i, tile * composition.tile, tile, d);
    }
  }

  Vector multiply(int i, int tile, const Vector &x, bool transposed) const {
    int block = composition.factors[i].block ? composition.factors[i].block : composition.dim;
    Vector y(composition.dim, Number(0));
    for (int a = 0; a < composition.dim; ++a)
      for (int b = a / block * block; b < a / block * block + block; ++b) {
        Number entry = values.rotation(i, tile, transposed ? b : a, transposed ? a : b);
        y[b] = y[b] + x[a] * entry;
      }
    return y;
  }
};

} // namespace kvqtest

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fold algebra against exact rational arithmetic: over random compositions, axes, groups, tiles
// and rotations, the folded form computes the same scores and outputs as dequantizing first. Wrong
// plans must be told apart.

#include "passes/analysis/Dequantization.h"
#include "test/unit/FoldEvaluator.h"

#include "mlir/Analysis/Presburger/Fraction.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

using namespace mlir::kvq::folding;
using Kind = Factor::Kind;
using Rational = mlir::presburger::Fraction;
using Evaluator = kvqtest::FoldEvaluator<Rational>;
using Vector = Evaluator::Vector;

namespace {

using Random = std::mt19937_64;

int below(Random &random, int end) {
  return std::uniform_int_distribution<int>(0, end - 1)(random);
}

/// A non-zero rational with a small numerator and denominator.
Rational smallRational(Random &random) {
  int numerator = below(random, 9) + 1;
  return Rational(below(random, 3) ? numerator : -numerator, int64_t(below(random, 3) + 1));
}

using Matrix = std::vector<Vector>;

/// A signed permutation times Givens rotations by the angles of Pythagorean triples: orthogonal,
/// and rational.
Matrix randomOrthogonal(Random &random, int n) {
  std::vector<int> order(n);
  for (int i = 0; i < n; ++i)
    order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  Matrix matrix(n, Vector(n, Rational(0)));
  for (int i = 0; i < n; ++i)
    matrix[i][order[i]] = Rational(below(random, 2) ? 1 : -1);
  for (int step = 0; n > 1 && step < 3; ++step) {
    int a = below(random, n), b = (a + 1 + below(random, n - 1)) % n;
    bool wide = below(random, 2);
    Rational c = wide ? Rational(3, int64_t(5)) : Rational(12, int64_t(13));
    Rational s = wide ? Rational(4, int64_t(5)) : Rational(5, int64_t(13));
    for (int column = 0; column < n; ++column) {
      Rational x = matrix[a][column], y = matrix[b][column];
      matrix[a][column] = c * x - s * y;
      matrix[b][column] = s * x + c * y;
    }
  }
  return matrix;
}

/// A composition with values for every factor, drawn from a seed.
struct Case {
  Composition composition;
  int tokens = 0;
  std::vector<std::vector<int>> codes;
  std::vector<std::map<std::array<int, 4>, Rational>> values;
  std::map<std::string, std::vector<Matrix>> rotations; // by name, then tile

  int tiles() const { return (tokens + composition.tile - 1) / composition.tile; }
  int blockOf(const Factor &factor) const { return factor.block ? factor.block : composition.dim; }

  void draw(Random &random) {
    codes.assign(tokens, std::vector<int>(composition.dim));
    for (auto &row : codes)
      for (int &code : row)
        code = below(random, 4);
    values.assign(composition.factors.size(), {});
    rotations.clear();
    for (int i = 0; i < static_cast<int>(composition.factors.size()); ++i)
      drawFactor(random, i);
  }

  std::array<int, 4> key(int i, int token, int tile, int group, int channel) const {
    Axes axes = composition.factors[i].axes;
    return {axes & axisToken ? token : 0, axes & axisTile ? tile : 0, axes & axisGroup ? group : 0,
            axes & axisChannel ? channel : 0};
  }

  kvqtest::FoldValues<Rational> functions() const {
    kvqtest::FoldValues<Rational> functions;
    functions.tokens = tokens;
    functions.code = [this](int t, int d) { return Rational(codes[t][d]); };
    functions.value = [this](int i, int t, int tile, int g, int d) {
      return values[i].at(key(i, t, tile, g, d));
    };
    functions.rotation = [this](int i, int tile, int row, int column) {
      const Factor &factor = composition.factors[i];
      int block = blockOf(factor);
      const auto &matrices = rotations.at(factor.name);
      return matrices[factor.axes & axisTile ? tile : 0][row % block][column % block];
    };
    functions.map = [](int, Rational parameter, Rational x) { return x * x + parameter; };
    return functions;
  }

private:
  void drawFactor(Random &random, int i) {
    const Factor &factor = composition.factors[i];
    if (factor.kind == Kind::rotation && !rotations.count(factor.name))
      for (int tile = 0; tile < tiles(); ++tile)
        rotations[factor.name].push_back(randomOrthogonal(random, blockOf(factor)));
    for (int t = 0; t < tokens; ++t)
      for (int d = 0; d < composition.dim; ++d) {
        int group = composition.group ? d / composition.group : 0;
        auto at = key(i, t, t / composition.tile, group, d);
        if (!values[i].count(at))
          values[i][at] = smallRational(random);
      }
  }
};

Factor factorOf(Kind kind, std::string name, Axes axes) {
  Factor factor;
  factor.kind = kind;
  factor.name = std::move(name);
  factor.axes = axes;
  return factor;
}

Factor randomFactor(Random &random, const Composition &composition, int index) {
  int kind = below(random, 20);
  std::string name = std::string(1, "srzf"[kind % 4]) + std::to_string(index);
  if (kind < 8)
    return factorOf(Kind::scale, name, below(random, 16));
  if (kind < 14) {
    Factor offset = factorOf(Kind::offset, name, below(random, 16));
    offset.exact = below(random, 4) == 0;
    return offset;
  }
  if (kind == 14)
    return factorOf(Kind::map, name, below(random, 16));
  Factor rotation = factorOf(Kind::rotation, name, below(random, 4) ? 0 : axisTile);
  std::vector<int> blocks = {0};
  for (int block = 2; block < composition.dim; ++block)
    if (composition.dim % block == 0)
      blocks.push_back(block);
  rotation.block = blocks[below(random, blocks.size())];
  rotation.transposed = below(random, 2);
  return rotation;
}

Case randomCase(Random &random) {
  static const int dims[] = {4, 6, 8}, groups[] = {0, 2};
  Case test;
  test.composition.dim = dims[below(random, 3)];
  test.composition.group = groups[below(random, 2)];
  test.composition.tile = below(random, 3) + 1;
  test.tokens = test.composition.tile + 1 + below(random, 4);
  int count = below(random, 7);
  for (int i = 0; i < count; ++i)
    test.composition.factors.push_back(randomFactor(random, test.composition, i));
  // Now and then a rotation meets its inverse or itself, with something in between.
  if (count && below(random, 4) == 0) {
    Factor first = test.composition.factors[below(random, count)];
    if (first.kind == Kind::rotation) {
      first.transposed = below(random, 2);
      test.composition.factors.push_back(first);
    }
  }
  test.draw(random);
  return test;
}

Vector randomVector(Random &random, int n) {
  Vector vector(n);
  for (Rational &x : vector)
    x = smallRational(random);
  return vector;
}

Rational dot(const Vector &a, const Vector &b) {
  Rational sum(0);
  for (size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

/// Scores of dequantized keys.
Vector directScores(const Evaluator &evaluator, const Vector &query, int tokens) {
  Vector scores;
  for (int t = 0; t < tokens; ++t)
    scores.push_back(dot(query, evaluator.dequantize(t)));
  return scores;
}

Vector directOutput(const Evaluator &evaluator, const Vector &p, const Rational &denominator,
                    int dim) {
  Vector out(dim, Rational(0));
  for (size_t t = 0; t < p.size(); ++t) {
    Vector row = evaluator.dequantize(t);
    for (int d = 0; d < dim; ++d)
      out[d] += p[t] * row[d] / denominator;
  }
  return out;
}

/// Whether the folded scores, with what was dropped, are the direct ones, and the dropped part is
/// one number.
bool keyIsExact(const Plan &plan, const Case &test, const Vector &query) {
  auto functions = test.functions();
  Evaluator evaluator(plan, functions);
  Evaluator::Scores folded = evaluator.scores(query);
  Vector direct = directScores(evaluator, query, test.tokens);
  for (int t = 0; t < test.tokens; ++t)
    if (folded.kept[t] + folded.dropped[t] != direct[t] || folded.dropped[t] != folded.dropped[0])
      return false;
  return true;
}

bool valueIsExact(const Plan &plan, const Case &test, const Vector &p, const Rational &sink) {
  auto functions = test.functions();
  Evaluator evaluator(plan, functions);
  Rational denominator = sink;
  for (const Rational &x : p)
    denominator += x;
  return evaluator.output(p, denominator) ==
         directOutput(evaluator, p, denominator, test.composition.dim);
}

Vector probabilities(Random &random, int tokens) {
  Vector p = randomVector(random, tokens);
  for (Rational &x : p)
    x = mlir::presburger::abs(x);
  return p;
}

std::string describe(const Plan &plan) {
  std::string text;
  for (size_t i = 0; i < plan.places.size(); ++i)
    text += plan.composition.factors[i].name + " (" + axesText(plan.composition.factors[i].axes) +
            ") -> " + placeName(plan.places[i]) + "\n";
  return text;
}

TEST(Folding, KeyEqualsDequantizeThenDot) {
  Random random(1);
  std::set<Place> seen;
  for (int round = 0; round < 6000; ++round) {
    Case test = randomCase(random);
    ASSERT_EQ(verifyComposition(test.composition), "");
    ScoreRules rules;
    rules.shiftInvariant = below(random, 3) != 0;
    rules.exportsLogSumExp = below(random, 2);
    Plan plan = placeKey(test.composition, rules);
    seen.insert(plan.places.begin(), plan.places.end());
    // Several query heads read the same KV head.
    for (int head = 0; head < 2; ++head)
      ASSERT_TRUE(keyIsExact(plan, test, randomVector(random, test.composition.dim)))
          << "round " << round << "\n"
          << describe(plan);
  }
  EXPECT_EQ(seen.size(), 11u) << "the random cases must reach every place of K";
}

TEST(Folding, ValueEqualsDequantizeThenSum) {
  Random random(2);
  std::set<Place> seen;
  for (int round = 0; round < 6000; ++round) {
    Case test = randomCase(random);
    Plan plan = placeValue(test.composition);
    seen.insert(plan.places.begin(), plan.places.end());
    // A sink takes part in the denominator but has no row here.
    Rational sink(below(random, 3));
    ASSERT_TRUE(valueIsExact(plan, test, probabilities(random, test.tokens), sink))
        << "round " << round << "\n"
        << describe(plan);
  }
  EXPECT_EQ(seen.size(), 9u) << "the random cases must reach every place of V";
}

/// Moving `index` to `place` loses information: the factor varies along an axis that the place
/// cannot tell apart.
bool losesAnAxis(const Case &test, int index, Place place) {
  Axes axes = test.composition.factors[index].axes;
  if (axes & axisToken)
    axes |= axisTile;
  if (axes & axisChannel)
    axes |= axisGroup;
  Axes lost = axes & ~placeAxes(place);
  if (test.composition.group == 0 || test.composition.group == test.composition.dim)
    lost &= ~axisGroup;
  if (lost == axisToken && test.composition.tile == 1)
    lost = 0; // a tile of one token tells tokens apart
  return lost != 0;
}

std::vector<Place> placesOf(Side side, Kind kind) {
  using P = Place;
  bool key = side == Side::key;
  if (kind == Kind::scale)
    return key ? std::vector<P>{P::query, P::query_per_tile, P::score, P::score_per_group}
               : std::vector<P>{P::output, P::accumulator_per_tile, P::probability,
                                P::probability_per_group};
  if (kind == Kind::offset)
    return key ? std::vector<P>{P::accumulator, P::bias_per_token, P::bias_per_tile,
                                P::bias_constant, P::dropped}
               : std::vector<P>{P::accumulator, P::bias_per_token, P::bias_per_tile,
                                P::bias_constant};
  return key ? std::vector<P>{P::score, P::dropped} : std::vector<P>{P::probability};
}

/// Whether some values tell `plan` from the truth.
bool isCaught(const Plan &plan, Case test, Random &random) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    bool exact = plan.side == Side::key
                     ? keyIsExact(plan, test, randomVector(random, test.composition.dim))
                     : valueIsExact(plan, test, probabilities(random, test.tokens), Rational(1));
    if (!exact)
      return true;
    test.draw(random);
  }
  return false;
}

TEST(Folding, AMovedFactorChangesTheResult) {
  Random random(3);
  int mutations = 0;
  for (int round = 0; round < 400; ++round) {
    Case test = randomCase(random);
    for (Side side : {Side::key, Side::value}) {
      Plan plan = side == Side::key ? placeKey(test.composition) : placeValue(test.composition);
      for (int i = 0; i < static_cast<int>(plan.places.size()); ++i) {
        Kind kind = test.composition.factors[i].kind;
        bool structural = kind == Kind::rotation || kind == Kind::map;
        // A rotation that meets its inverse may be absent without harm.
        if (structural && test.composition.factors.back().name == test.composition.factors[i].name)
          continue;
        for (Place place : placesOf(side, kind)) {
          if (!structural && !losesAnAxis(test, i, place))
            continue;
          Plan wrong = plan;
          wrong.places[i] = place;
          EXPECT_TRUE(isCaught(wrong, test, random))
              << "factor " << i << " moved to " << placeName(place) << "\n"
              << describe(plan);
          ++mutations;
        }
      }
    }
  }
  EXPECT_GT(mutations, 2000);
}

TEST(Folding, ATransposedRotationChangesTheResult) {
  Random random(4);
  int mutations = 0;
  for (int round = 0; round < 300; ++round) {
    Case test = randomCase(random);
    for (Side side : {Side::key, Side::value}) {
      Plan plan = side == Side::key ? placeKey(test.composition) : placeValue(test.composition);
      for (int i = 0; i < static_cast<int>(plan.places.size()); ++i) {
        if (plan.places[i] == Place::elementwise ||
            test.composition.factors[i].kind != Kind::rotation ||
            test.composition.factors.back().name == test.composition.factors[i].name)
          continue;
        Plan wrong = plan;
        wrong.composition.factors[i].transposed = !plan.composition.factors[i].transposed;
        auto functions = test.functions();
        Evaluator right(plan, functions), evaluator(wrong, functions);
        Vector x = randomVector(random, test.composition.dim),
               p = probabilities(random, test.tokens);
        bool differs = side == Side::key
                           ? evaluator.scores(x).kept != right.scores(x).kept ||
                                 evaluator.scores(x).dropped != right.scores(x).dropped
                           : evaluator.output(p, Rational(1)) != right.output(p, Rational(1));
        mutations += differs;
      }
    }
  }
  EXPECT_GT(mutations, 100);
}

std::vector<Place> keyPlaces(std::vector<Factor> factors, const ScoreRules &rules = {}) {
  return placeKey({std::move(factors), 8, 2, 4}, rules).places;
}
std::vector<Place> valuePlaces(std::vector<Factor> factors) {
  return placeValue({std::move(factors), 8, 2, 4}).places;
}

// One test per row of the table in docs/folding.md.
TEST(Folding, ScalesOfTokensAndGroups) {
  using P = Place;
  auto scale = [](Axes axes) { return std::vector{factorOf(Kind::scale, "s", axes)}; };
  EXPECT_EQ(keyPlaces(scale(axisToken)), std::vector{P::score});
  EXPECT_EQ(keyPlaces(scale(axisToken | axisGroup)), std::vector{P::score_per_group});
  EXPECT_EQ(keyPlaces(scale(axisChannel | axisTile)), std::vector{P::query_per_tile});
  EXPECT_EQ(keyPlaces(scale(axisChannel)), std::vector{P::query});
  EXPECT_EQ(keyPlaces(scale(axisToken | axisChannel)), std::vector{P::elementwise});
  EXPECT_EQ(valuePlaces(scale(axisToken)), std::vector{P::probability});
  EXPECT_EQ(valuePlaces(scale(axisToken | axisGroup)), std::vector{P::probability_per_group});
  EXPECT_EQ(valuePlaces(scale(axisChannel | axisTile)), std::vector{P::accumulator_per_tile});
  EXPECT_EQ(valuePlaces(scale(axisChannel)), std::vector{P::output});
  EXPECT_EQ(valuePlaces(scale(axisToken | axisChannel)), std::vector{P::elementwise});
}

TEST(Folding, TheMiddleOfTheCodeStartsTheAccumulator) {
  using P = Place;
  std::vector<Factor> factors = {factorOf(Kind::offset, "-mid", 0),
                                 factorOf(Kind::offset, "mid", 0),
                                 factorOf(Kind::scale, "s", axisToken)};
  factors[1].exact = true; // needs unrounded weights, so it keeps a sum of its own
  EXPECT_EQ(valuePlaces(factors), (std::vector{P::accumulator, P::bias_constant, P::probability}));
  EXPECT_EQ(keyPlaces(factors), (std::vector{P::accumulator, P::bias_constant, P::score}));
}

TEST(Folding, CentersAreDroppedOrFindAPlace) {
  using P = Place;
  std::vector<Factor> factors = {
      factorOf(Kind::scale, "s", axisToken), factorOf(Kind::offset, "mu_r", axisChannel),
      factorOf(Kind::rotation, "R", 0), factorOf(Kind::offset, "mu_m", axisChannel)};
  EXPECT_EQ(keyPlaces(factors), (std::vector{P::score, P::dropped, P::query, P::dropped}));
  EXPECT_EQ(keyPlaces(factors, {true, true}),
            (std::vector{P::score, P::log_sum_exp, P::query, P::log_sum_exp}));
  EXPECT_EQ(keyPlaces(factors, {false, false}),
            (std::vector{P::score, P::bias_constant, P::query, P::bias_constant}));
  EXPECT_EQ(valuePlaces(factors),
            (std::vector{P::probability, P::bias_constant, P::output, P::bias_constant}));
  // A mean that changes per tile is not a shift.
  factors[3].axes = axisChannel | axisTile;
  EXPECT_EQ(keyPlaces(factors).back(), P::bias_per_tile);
}

/// The rows of all constant terms, summed: what a compiler bakes in.
Vector constantRow(const Plan &plan, const Case &test) {
  Case zero = test;
  zero.tokens = 1;
  zero.codes = {std::vector<int>(test.composition.dim, 0)};
  auto functions = zero.functions();
  for (size_t i = 0; i < zero.values.size(); ++i)
    if (plan.composition.factors[i].kind == Kind::scale)
      for (auto &[at, value] : zero.values[i])
        value = Rational(0);
  return Evaluator(plan, functions).output({Rational(1)}, Rational(1));
}

TEST(Folding, ACenterAfterTheRotationMergesIntoOneBefore) {
  Random random(5);
  for (int round = 0; round < 50; ++round) {
    Case test;
    test.tokens = 3;
    Factor rotation = factorOf(Kind::rotation, "R", 0);
    rotation.transposed = true;
    test.composition = {{factorOf(Kind::scale, "s", axisToken),
                         factorOf(Kind::offset, "mu_r", axisChannel), rotation,
                         factorOf(Kind::offset, "mu_m", axisChannel)},
                        6,
                        0,
                        2};
    test.draw(random);
    Vector row = constantRow(placeValue(test.composition), test);
    for (int d = 0; d < 6; ++d) {
      Rational expected = test.values[3].at({0, 0, 0, d});
      for (int e = 0; e < 6; ++e) // (mu_r R^T)_d
        expected += test.values[1].at({0, 0, 0, e}) * test.rotations["R"][0][d][e];
      EXPECT_EQ(row[d], expected);
    }
    // A mutated row differs: the merge needs the transpose.
    Plan wrong = placeValue(test.composition);
    wrong.composition.factors[2].transposed = false;
    EXPECT_NE(constantRow(wrong, test), row);
  }
}

TEST(Folding, RotationInTheOutputWeightsCancels) {
  Factor inverse = factorOf(Kind::rotation, "R", 0), forward = inverse;
  inverse.transposed = true;
  Plan plan = placeValue({{factorOf(Kind::scale, "s", axisToken), inverse,
                           factorOf(Kind::offset, "mu", axisChannel), forward},
                          8,
                          0,
                          4});
  std::vector<Term> terms = termsOf(plan);
  ASSERT_EQ(terms.size(), 2u);
  EXPECT_TRUE(terms.back().fixed.empty()) << "the accumulator is not rotated";
  EXPECT_EQ(terms.front().fixed, std::vector<int>{3}) << "the mean is, when compiling";
  EXPECT_TRUE(terms.front().constant);
  EXPECT_EQ(plan.costs[1].perQuery + plan.costs[3].perQuery, 0);
}

TEST(Folding, TheSumOfProbabilitiesIsNotTheDenominator) {
  Random random(6);
  Case test;
  test.tokens = 3;
  test.composition = {{factorOf(Kind::offset, "mu", axisChannel)}, 4, 0, 2};
  test.draw(random);
  for (auto &row : test.codes)
    row.assign(4, 0);
  auto functions = test.functions();
  Plan plan = placeValue(test.composition);
  Vector p = {Rational(1, int64_t(4)), Rational(1, int64_t(4)), Rational(1, int64_t(4))};
  Vector out = Evaluator(plan, functions).output(p, Rational(1));
  for (int d = 0; d < 4; ++d)
    EXPECT_EQ(out[d], test.values[0].at({0, 0, 0, d}) * Rational(3, int64_t(4)));
}

TEST(Folding, CostsAreCounted) {
  Factor rotation = factorOf(Kind::rotation, "H", 0);
  rotation.fast = true;
  Plan plan = placeKey({{factorOf(Kind::scale, "s", axisToken | axisGroup),
                         factorOf(Kind::offset, "z", axisToken | axisGroup)},
                        128,
                        32,
                        16});
  EXPECT_EQ(costText(plan.costs[0]), "4 per token, 0 per tile, 0 per query");
  EXPECT_EQ(costText(plan.costs[1]), "4 per token, 0 per tile, 128 per query");
  plan = placeValue({{factorOf(Kind::scale, "s", axisChannel | axisTile), rotation}, 128, 0, 16});
  EXPECT_EQ(costText(plan.costs[0]), "0 per token, 128 per tile, 0 per query");
  EXPECT_EQ(costText(plan.costs[1]), "0 per token, 0 per tile, 896 per query");
}

TEST(Folding, MalformedCompositionsAreRefused) {
  EXPECT_EQ(verifyComposition({{}, 8, 3, 16}), "expected a group that divides 8 channels, got 3");
  EXPECT_EQ(verifyComposition({{factorOf(Kind::rotation, "R", axisToken)}, 8, 0, 16}),
            "rotation 'R' may vary per tile only, got axes t");
  Factor rotation = factorOf(Kind::rotation, "R", 0);
  rotation.block = 3;
  EXPECT_EQ(verifyComposition({{rotation}, 8, 0, 16}),
            "rotation 'R' expects a block that divides 8 channels, got 3");
}

::kvq::SideMethod sideOf(::kvq::ParameterForm form, int group) {
  ::kvq::SideMethod side;
  side.record.dim = 64;
  side.record.form = form;
  side.record.group = group;
  ::kvq::Step center, rotate, clip;
  center.constant = 0;
  rotate.kind = ::kvq::Step::Kind::rotate;
  rotate.factors = {{::kvq::RotationFactor::Kind::dense, 0, false, 1},
                    {::kvq::RotationFactor::Kind::hadamard, 64, false, -1}};
  clip.kind = ::kvq::Step::Kind::clip;
  side.steps = {center, rotate, clip};
  return side;
}

std::string names(const Composition &composition) {
  std::string text;
  for (const Factor &factor : composition.factors)
    text += factor.name + "(" + axesText(factor.axes) + ") ";
  return text;
}

TEST(Dequantization, FollowsTheParameterForm) {
  std::vector<::kvq::Constant> constants = {{"mean", {}, 0}, {"rotation", {}, 0}};
  std::string steps = "hadamard(constant) rotation(constant) mean(d) ";
  using Form = ::kvq::ParameterForm;
  EXPECT_EQ(names(dequantization(sideOf(Form::min, 32), constants, 16)),
            "scale(t, g) zero(t, g) " + steps);
  EXPECT_EQ(names(dequantization(sideOf(Form::zero, 0), constants, 16)),
            "zero(t) scale(t) " + steps);
  EXPECT_EQ(names(dequantization(sideOf(Form::sym, 64), constants, 16)),
            "mid(constant) scale(t) " + steps);
  EXPECT_EQ(names(dequantization(sideOf(Form::norm, 0), constants, 16)),
            "book(constant) scale(t) " + steps);
  EXPECT_EQ(names(dequantization(sideOf(Form::min, 0), constants, 16, true)),
            "-mid(constant) mid(constant) scale(t) zero(t) " + steps);
}

TEST(Dequantization, EveryFormFoldsOutOfTheInnerProduct) {
  std::vector<::kvq::Constant> constants = {{"mean", {}, 0}, {"rotation", {}, 0}};
  for (auto form :
       {::kvq::ParameterForm::min, ::kvq::ParameterForm::zero, ::kvq::ParameterForm::sym})
    for (auto axis : {::kvq::ParameterAxis::token, ::kvq::ParameterAxis::channel})
      for (auto outer :
           {::kvq::OuterScale::none, ::kvq::OuterScale::token, ::kvq::OuterScale::channel}) {
        ::kvq::SideMethod side = sideOf(form, 0);
        side.record.axis = axis;
        side.record.outer = outer;
        Composition composition = dequantization(side, constants, 128, true);
        for (const Plan &plan : {placeKey(composition), placeValue(composition)})
          for (Place place : plan.places)
            EXPECT_NE(place, Place::elementwise) << names(composition);
      }
}

} // namespace

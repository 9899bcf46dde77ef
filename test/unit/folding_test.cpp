// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fold algebra against exact rational arithmetic: over random compositions, axes, groups, tiles
// and rotations, the folded form computes the same scores and outputs as dequantizing first. Wrong
// plans must be told apart.

#include "test/unit/FoldCases.h"

#include <gtest/gtest.h>

#include <set>

using namespace mlir::kvq::folding;
using namespace kvqtest;
using Evaluator = FoldEvaluator<Rational>;

namespace {

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
  Random random = seeded(1);
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
  Random random = seeded(2);
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
  Random random = seeded(3);
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
  Random random = seeded(4);
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
  Random random = seeded(5);
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
  Random random = seeded(6);
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

} // namespace

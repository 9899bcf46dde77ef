// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random dequantizations over exact rationals, with values for every factor.
#pragma once

#include "test/unit/FoldEvaluator.h"

#include "mlir/Analysis/Presburger/Fraction.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace kvqtest {

using mlir::kvq::folding::Axes;
using mlir::kvq::folding::axisChannel;
using mlir::kvq::folding::axisGroup;
using mlir::kvq::folding::axisTile;
using mlir::kvq::folding::axisToken;
using Kind = Factor::Kind;
using Rational = mlir::presburger::Fraction;
using Vector = std::vector<Rational>;
using Random = std::mt19937_64;
/// The same numbers in every run.
inline Random seeded(uint64_t seed) { return Random(seed); }

inline int below(Random &random, int end) {
  return std::uniform_int_distribution<int>(0, end - 1)(random);
}

/// A non-zero rational with a small numerator and denominator.
inline Rational smallRational(Random &random) {
  int numerator = below(random, 9) + 1;
  return Rational(below(random, 3) ? numerator : -numerator, int64_t(below(random, 3) + 1));
}

using Matrix = std::vector<Vector>;

/// A signed permutation times Givens rotations by the angles of Pythagorean triples: orthogonal,
/// and rational.
inline Matrix randomOrthogonal(Random &random, int n) {
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

  FoldValues<Rational> functions() const {
    FoldValues<Rational> functions;
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
    functions.map = [](int, const Rational &parameter, const Rational &x) {
      return x * x + parameter;
    };
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

inline Factor factorOf(Kind kind, std::string name, Axes axes) {
  Factor factor;
  factor.kind = kind;
  factor.name = std::move(name);
  factor.axes = axes;
  return factor;
}

inline Factor randomFactor(Random &random, const Composition &composition, int index) {
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

inline Case randomCase(Random &random) {
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

inline Vector randomVector(Random &random, int n) {
  Vector vector(n);
  for (Rational &x : vector)
    x = smallRational(random);
  return vector;
}

} // namespace kvqtest

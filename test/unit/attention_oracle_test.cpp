// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of the oracle: small cases by hand, and what must not change the result.
#include "runtime/reference/Attention.h"

#include "runtime/reference/Append.h"
#include "runtime/reference/Rotation.h"
#include "test/support/Records.h"
#include "test/support/TestMethods.h"

#include <gtest/gtest.h>

namespace kvq::test {
namespace {

using Row = std::vector<double>;

struct Problem {
  AttentionShape shape;
  AttentionRule rule;
  int64_t length = 0;
  Row queries, keys, values;

  Problem(int qHeads, int kvHeads, int64_t length, int dim, int64_t queryRows, uint64_t seed)
      : shape{qHeads, kvHeads, dim, dim + 1, queryRows}, length(length) {
    Gauss random(seed);
    rule.scale = 0.7;
    for (auto [row, size] : {std::pair(&queries, queryRows * qHeads * dim),
                             {&keys, kvHeads * length * dim},
                             {&values, kvHeads * length * (dim + 1)}})
      for (int64_t i = 0; i < size; ++i)
        row->push_back(random.next());
  }

  AttentionResult run() const { return exactAttention(shape, rule, length, queries, keys, values); }
};

/// One head of one channel; logits are the keys, values are given.
AttentionResult single(const AttentionRule &rule, const Row &keys, const Row &values,
                       int64_t queries = 1) {
  return exactAttention({1, 1, 1, 1, queries}, rule, int64_t(keys.size()), Row(queries, 1), keys,
                        values);
}

TEST(Attention, ByHand) {
  const AttentionResult result = single({}, {0, std::log(3.0)}, {4, 8});
  EXPECT_DOUBLE_EQ(result.out[0], 7); // 1/4 and 3/4
  EXPECT_DOUBLE_EQ(result.lse[0], std::log(4.0));
  AttentionRule rule;
  rule.scale = 2;
  EXPECT_DOUBLE_EQ(single(rule, {0, std::log(3.0)}, {0, 10}).out[0], 9); // 1/10 and 9/10
}

TEST(Attention, NoKeysGiveZeros) {
  const AttentionResult result = single({}, {}, {});
  EXPECT_EQ(result.out, Row{0});
  EXPECT_EQ(result.lse, Row{-INFINITY});
}

TEST(Attention, CausalQueriesSeeKeysUpToTheirOwn) {
  const Row keys(3, 0), values = {3, 6, 30};
  EXPECT_EQ(single({}, keys, values, 3).out, (Row{3, 4.5, 13}));
  EXPECT_EQ(single({}, keys, values, 1).out, Row{13});
  AttentionRule rule;
  rule.causal = false;
  EXPECT_EQ(single(rule, keys, values, 2).out, (Row{13, 13}));
  // Four queries on three keys: the first is before all keys.
  const AttentionResult early = single({}, keys, values, 4);
  EXPECT_EQ(early.out, (Row{0, 3, 4.5, 13}));
  EXPECT_EQ(early.lse[0], -INFINITY);
}

TEST(Attention, WindowCountsTheQuerysOwnKey) {
  AttentionRule rule;
  const Row keys(4, 0), values = {1, 2, 4, 8};
  rule.window = 1;
  EXPECT_EQ(single(rule, keys, values, 2).out, (Row{4, 8}));
  rule.window = 3;
  EXPECT_NEAR(single(rule, keys, values).out[0], 14.0 / 3, 1e-15);
  rule.window = 4;
  EXPECT_EQ(single(rule, keys, values).out, single({}, keys, values).out);
}

TEST(Attention, SinkTakesProbabilityAndHasNoValue) {
  AttentionRule rule;
  rule.sinks = {std::log(2.0)};
  const AttentionResult result = single(rule, {0, 0}, {3, 5});
  EXPECT_DOUBLE_EQ(result.out[0], 2);
  EXPECT_DOUBLE_EQ(result.lse[0], std::log(4.0));
  rule.sinks = {-1e300};
  EXPECT_DOUBLE_EQ(single(rule, {0, 0}, {3, 5}).out[0], 4);
  EXPECT_DOUBLE_EQ(single(rule, {0, 0}, {3, 5}).lse[0], std::log(2.0));
  rule.sinks = {1e300};
  EXPECT_EQ(single(rule, {0, 0}, {3, 5}).out[0], 0);
  EXPECT_EQ(single(rule, {0, 0}, {3, 5}).lse[0], 1e300);
}

TEST(Attention, SinkOfAQueryWithoutKeysCountsForNothing) {
  AttentionRule rule;
  rule.sinks = {3};
  const AttentionResult result = single(rule, {0}, {8}, 2); // the first query is before the key
  EXPECT_EQ(result.out[0], 0);
  EXPECT_EQ(result.lse[0], -INFINITY);
  EXPECT_DOUBLE_EQ(result.out[1], 8 / (1 + std::exp(3.0)));
  EXPECT_DOUBLE_EQ(result.lse[1], std::log(1 + std::exp(3.0)));
}

TEST(Attention, SoftcapLimits) {
  AttentionRule rule;
  rule.softcap = 2;
  const AttentionResult result = single(rule, {1e6, -1e6}, {1, 0}); // logits 2 and -2
  EXPECT_DOUBLE_EQ(result.out[0], 1 / (1 + std::exp(-4.0)));
  EXPECT_DOUBLE_EQ(result.lse[0], 2 + std::log1p(std::exp(-4.0)));
  Problem problem(2, 1, 20, 8, 1, 3);
  const AttentionResult plain = problem.run();
  problem.rule.softcap = 1e7;
  EXPECT_LT(relativeError(problem.run().out, plain.out), 1e-12);
  problem.rule.softcap = 1;
  EXPECT_GT(relativeError(problem.run().out, plain.out), 1e-2);
}

TEST(Attention, LargeLogitsDoNotOverflow) {
  const AttentionResult result = single({}, {5000, 4000, 5000}, {1, 100, 3});
  EXPECT_DOUBLE_EQ(result.out[0], 2);
  EXPECT_DOUBLE_EQ(result.lse[0], 5000 + std::log(2.0));
}

TEST(Attention, MeanOfTheKeysShiftsOnlyTheLogSumExp) {
  Problem problem(4, 2, 37, 8, 1, 5);
  const AttentionResult before = problem.run();
  Gauss random(6);
  Row mean(8);
  for (double &x : mean)
    x = 3 * random.next();
  for (size_t i = 0; i < problem.keys.size(); ++i)
    problem.keys[i] += mean[i % 8];
  const AttentionResult after = problem.run();
  EXPECT_LT(relativeError(after.out, before.out), 1e-13);
  for (int head = 0; head < 4; ++head) {
    double shift = 0;
    for (int d = 0; d < 8; ++d)
      shift += problem.rule.scale * problem.queries[8 * head + d] * mean[d];
    EXPECT_NEAR(after.lse[head], before.lse[head] + shift, 1e-12);
  }
}

TEST(Attention, QueryHeadsReadTheirKeyHead) {
  const Problem both(6, 2, 11, 4, 1, 9);
  const AttentionResult result = both.run();
  for (int head = 0; head < 6; ++head) {
    Problem one(1, 1, 11, 4, 1, 9);
    one.queries.assign(&both.queries[4 * head], &both.queries[4 * head] + 4);
    one.keys.assign(&both.keys[head / 3 * 44], &both.keys[head / 3 * 44] + 44);
    one.values.assign(&both.values[head / 3 * 55], &both.values[head / 3 * 55] + 55);
    const AttentionResult alone = one.run();
    EXPECT_EQ(alone.out, Row(&result.out[5 * head], &result.out[5 * head] + 5));
    EXPECT_EQ(alone.lse[0], result.lse[head]);
  }
}

TEST(Attention, ManyQueriesEqualOneAfterAnother) {
  const Problem many(2, 1, 9, 4, 3, 10);
  const AttentionResult result = many.run();
  for (int row = 0; row < 3; ++row) {
    Problem one = many;
    one.shape.queryRows = 1;
    one.length = 7 + row;
    one.queries.assign(&many.queries[8 * row], &many.queries[8 * row] + 8);
    const AttentionResult alone = one.run();
    EXPECT_EQ(alone.out, Row(&result.out[10 * row], &result.out[10 * row] + 10));
  }
}

TEST(Attention, RotatedQueriesOverRotatedKeysAndValues) {
  // Attention over the rows in the rotated basis, with the query rotated and the output rotated
  // back, equals attention over the rows in the model's basis.
  const RecordSide record = side(64, 4);
  TestMethod test(plainSide(record), plainSide(record));
  const int rotation = test.addRotation(64, 12);
  test.method.key.steps = {rotateStep({denseFactor(rotation), hadamardFactor(64)})};
  test.method.value.steps = {rotateStep({hadamardFactor(64), denseFactor(rotation, true)})};
  const RecordLayout layout = buildRecord(test.method.record());
  const DataRows rows = makeRows({DataKind::random, 1.5, 13}, 1, 1, 50, 64, 64);
  std::vector<uint8_t> page(layout.stride);
  Row keys[2], values[2];
  for (int t = 0; t < 50; ++t) {
    appendToken(test.method, layout, test.constants(), {}, page.data(), t, &rows.keys[64 * t],
                &rows.values[64 * t]);
    for (RowBasis basis : {RowBasis::rotated, RowBasis::model})
      for (auto [name, all] : {std::pair('k', keys), {'v', values}}) {
        const Row row =
            dequantize(test.method, layout, test.constants(), {}, page.data(), name, t, basis);
        all[int(basis)].insert(all[int(basis)].end(), row.begin(), row.end());
      }
  }
  const AttentionShape shape = {1, 1, 64, 64, 1};
  AttentionRule rule;
  rule.scale = 0.125;
  Row query(rows.queries.begin(), rows.queries.end());
  const AttentionResult model = exactAttention(shape, rule, 50, query, keys[1], values[1]);
  rotateRow(test.method.key.steps[0].factors, test.constants(), {}, query);
  AttentionResult rotated = exactAttention(shape, rule, 50, query, keys[0], values[0]);
  unrotateRow(test.method.value.steps[0].factors, test.constants(), {}, rotated.out);
  EXPECT_LT(relativeError(rotated.out, model.out), 1e-6); // the matrix is orthogonal in fp32 only
  EXPECT_NEAR(rotated.lse[0], model.lse[0], 1e-6);
}

TEST(RelativeError, IsOfTheWholeVector) {
  EXPECT_EQ(relativeError({3, 4}, {3, 4}), 0);
  EXPECT_EQ(relativeError({0, 0}, {3, 4}), 1);
  EXPECT_EQ(relativeError({0, 0}, {0, 0}), 0);
  EXPECT_EQ(relativeError({1, 0}, {0, 0}), INFINITY);
  EXPECT_TRUE(std::isnan(relativeError({NAN, 0}, {3, 4})));
}

TEST(DataKinds, DominantTokenDominatesAndTheTailStillCounts) {
  const DataRows rows = makeRows({DataKind::dominant, 0, 17}, 4, 2, 20000, 64, 64);
  AttentionRule rule;
  rule.scale = 0.125;
  for (int head = 0; head < 4; ++head) {
    Row logits;
    for (int t = 0; t < 20000; ++t) {
      double sum = 0;
      for (int d = 0; d < 64; ++d)
        sum += rows.queries[64 * head + d] * rows.keys[64 * (20000 * (head / 2) + t) + d];
      logits.push_back(rule.scale * sum);
    }
    const double top = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (double logit : logits)
      sum += std::exp(logit - top);
    EXPECT_GT(1 / sum, 0.5) << "head " << head;
    EXPECT_LT(1 / sum, 0.99) << "head " << head;
  }
}

} // namespace
} // namespace kvq::test

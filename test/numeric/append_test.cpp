// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bytes that the append kernel writes equal those of the oracle, and no other byte changes.
#include "runtime/reference/Append.h"
#include "test/numeric/Kernels.h"
#include "test/numeric/Methods.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kvq::test {
namespace {

using mlir::kvq::CpuLevel;

std::vector<CpuLevel> levels() {
  std::vector<CpuLevel> all;
  for (CpuLevel level : {CpuLevel::baseline, CpuLevel::v3, CpuLevel::v4})
    if (level <= mlir::kvq::hostCpuLevel())
      all.push_back(level);
  return all;
}

/// Overwrites some rows with what breaks quantizers.
void addHardRows(std::vector<float> &rows, int64_t rowSize, std::mt19937_64 &random) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> constants = {0.0f,  -0.0f, 1.0f,  -3.25f, 1e-30f,
                                        6e-8f, 3e38f, -7e4f, inf};
  int64_t count = static_cast<int64_t>(rows.size()) / rowSize;
  for (int64_t i = 0; i < count; i += 3) {
    float *row = &rows[i * rowSize];
    switch (random() % 6) {
    case 0:
      std::fill(row, row + rowSize, constants[random() % constants.size()]);
      break;
    case 1:
      row[random() % rowSize] = std::nanf("");
      row[random() % rowSize] = random() % 2 ? inf : -inf;
      break;
    case 2: // far from zero and narrow: the zero form overflows
      std::transform(row, row + rowSize, row, [](float x) { return 1000 + x * 1e-3f; });
      break;
    case 3: // on rounding ties
      std::transform(row, row + rowSize, row, [](float x) { return std::rint(2 * x) / 2; });
      break;
    case 4: // subnormal in f16
      std::transform(row, row + rowSize, row, [](float x) { return x * 1e-6f; });
      break;
    case 5: // signed zeros among numbers of one sign
      std::transform(row, row + rowSize, row, [](float x) { return x < 0 ? -0.0f : x; });
      break;
    }
  }
}

/// Appends by the oracle what `append` of the kernels was given.
void appendByOracle(Cache &cache, const Rows &k, const Rows &v, int64_t tokens) {
  std::vector<float> keys = k.values(), values = v.values();
  Constants constants(cache.method, cache.constants);
  int keyDim = cache.method.key.record.dim, valueDim = cache.method.value.record.dim;
  for (int64_t token = 0; token < tokens; ++token)
    for (int head = 0; head < cache.method.kv_heads; ++head) {
      int64_t row = token * cache.method.kv_heads + head;
      appendToken(cache.method, cache.layout, constants, {cache.layer, head},
                  cache.record(token, head), token % cache.page, &keys[row * keyDim],
                  &values[row * valueDim]);
    }
}

/// Where two pools first differ, in words; empty when they do not.
std::string firstDifference(const Cache &got, const Cache &expected) {
  for (int64_t i = 0; i < got.poolBytes; ++i)
    if (got.pool[i] != expected.pool[i])
      return "byte " + std::to_string(i % got.layout.stride) + " of record " +
             std::to_string(i / got.layout.stride) + ": expected " +
             std::to_string(expected.pool[i]) + ", got " + std::to_string(got.pool[i]);
  return "";
}

void checkAppend(const MethodCase &c, CpuLevel level, uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed) + " on " + mlir::kvq::cpuLevelName(level).str() +
               ": " + describe(c.method));
  std::mt19937_64 random(seed);
  std::unique_ptr<Kernels> kernels = Kernels::compile(c.method, level);
  ASSERT_TRUE(kernels);
  const int64_t tokens = 75;
  Inputs inputs =
      makeInputs(c.method, tokens, 1, random() % 2 ? Data::random : Data::heavyTailed, seed);
  addHardRows(inputs.k, c.method.key.record.dim, random);
  addHardRows(inputs.v, c.method.value.record.dim, random);
  Rows k(c.method.key.rows, inputs.k), v(c.method.value.rows, inputs.v);
  std::vector<int64_t> order(tokens);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);

  Cache got(c.method, c.constants, tokens, c.method.page, seed),
      expected(c.method, c.constants, tokens, c.method.page, seed);
  got.layer = expected.layer = c.method.layers - 1;
  got.append(*kernels, k, v, 0, tokens, order);
  appendByOracle(expected, k, v, tokens);
  EXPECT_EQ(firstDifference(got, expected), "");
}

TEST(Append, RandomMethodsEqualTheOracle) {
  std::vector<CpuLevel> all = levels();
  for (uint64_t seed = 1; seed <= 45; ++seed)
    checkAppend(randomMethod(seed), all[seed % all.size()], seed);
}

/// Signed codes, on one side or both.
TEST(Append, EightBitsEqualTheOracle) {
  std::vector<CpuLevel> all = levels();
  std::vector<MethodCase> cases = eightBitMethods();
  for (size_t i = 0; i < cases.size(); ++i)
    checkAppend(cases[i], all[i % all.size()], 100 + i);
}

TEST(Append, LargestHeadDim) {
  MethodCase c = plainMethod(576, 512, 1);
  std::mt19937_64 random(7);
  addRotation(c, true, Rotation::blockHadamard, ElementType::bf16, random);
  addRotation(c, false, Rotation::dense, ElementType::bf16, random);
  checkAppend(c, mlir::kvq::hostCpuLevel(), 7);
}

/// Two tokens in one call each, in either order, or all in one call: the same bytes.
TEST(Append, OneByOneEqualsBulk) {
  MethodCase c = plainMethod(64, 64, 1);
  std::unique_ptr<Kernels> kernels = Kernels::compile(c.method, mlir::kvq::hostCpuLevel());
  ASSERT_TRUE(kernels);
  const int64_t tokens = 50;
  Inputs inputs = makeInputs(c.method, tokens, 1, Data::random, 3);
  Rows k(c.method.key.rows, inputs.k), v(c.method.value.rows, inputs.v);
  Cache bulk(c.method, c.constants, tokens, 32, 3), single(c.method, c.constants, tokens, 32, 3);
  bulk.append(*kernels, k, v, 0, tokens);
  for (int64_t token = tokens; token-- > 0;)
    single.append(*kernels, k, v, token, 1);
  EXPECT_EQ(firstDifference(single, bulk), "");
}

TEST(Append, NegativeSlotWritesNothing) {
  MethodCase c = plainMethod(64, 64, 1);
  std::unique_ptr<Kernels> kernels = Kernels::compile(c.method, mlir::kvq::hostCpuLevel());
  ASSERT_TRUE(kernels);
  Inputs inputs = makeInputs(c.method, 1, 1, Data::random, 4);
  Rows k(c.method.key.rows, inputs.k), v(c.method.value.rows, inputs.v);
  Cache cache(c.method, c.constants, 16, 16, 4);
  int64_t slot = -1;
  kvq_token_kernel_args args{};
  args.slot_bytes = 8;
  args.reserved_slot = -1;
  args.k = k.bytes.data();
  args.v = v.bytes.data();
  args.slots = &slot;
  args.pool = cache.pool;
  args.page_stride = args.head_stride = cache.layout.stride;
  args.page_tokens = 16;
  args.tokens = args.kv_heads = 1;
  kernels->append(&args, 0);
  EXPECT_EQ(std::count(cache.pool, cache.pool + cache.poolBytes, 0xff), cache.poolBytes);
}

/// Codes of f16 rows at the ends of the type: every T() saturates, every level alike.
TEST(Append, EveryLevelWritesTheSameBytes) {
  for (ElementType element : {ElementType::f16, ElementType::bf16, ElementType::f32}) {
    MethodCase c = plainMethod(96, 32, 1);
    c.method.key.rows = c.method.value.rows = element;
    c.method.key.record.element = c.method.value.record.element = element;
    c.method.key.record.group = 32;
    for (CpuLevel level : levels())
      checkAppend(c, level, 11);
  }
}

} // namespace
} // namespace kvq::test

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decode of several query tokens, uniform and ragged, with other ratios than the library's, sliding
// windows, learned sinks and softcap, over both forms of page tables; against attention in double
// that is written out here and shares nothing with the oracle's.
#include "runtime/reference/Append.h"
#include "runtime/reference/Tolerances.h"
#include "test/numeric/Kernels.h"
#include "test/numeric/Methods.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvq::test {
namespace {

/// One call of decode. All sequences are beginnings of the one in the cache.
struct Request {
  std::vector<int32_t> lengths, queryLengths; ///< of each sequence
  bool indptr = false;                        ///< queries and page ids by indptr
  int64_t ratio = 1, window = 0, split = 64;
  bool sinks = false;

  int64_t tokens() const { return std::accumulate(queryLengths.begin(), queryLengths.end(), 0); }
  int64_t bound() const { return *std::max_element(queryLengths.begin(), queryLengths.end()); }
  std::string text() const {
    return "ratio " + std::to_string(ratio) + " window " + std::to_string(window) + " split " +
           std::to_string(split) + (sinks ? " sinks" : "") + (indptr ? " indptr" : " uniform") +
           " q_length " + std::to_string(bound());
  }
};

/// Prefix sums that begin with 0.
std::vector<int32_t> indptrOf(const std::vector<int32_t> &counts) {
  std::vector<int32_t> sums(1, 0);
  for (int32_t count : counts)
    sums.push_back(sums.back() + count);
  return sums;
}

/// A cache with rows in it, and the same rows in double.
struct Filled {
  const MethodCase c; ///< the cache refers to it
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Cache> cache;
  int64_t tokens;
  std::vector<double> keys, values; ///< [head][token][dim], in the model's basis

  Filled(const MethodCase &drawn, int64_t tokens, uint64_t seed)
      : c(drawn), kernels(Kernels::compile(c.method, mlir::kvq::hostCpuLevel())), tokens(tokens) {
    if (!kernels)
      return;
    cache = std::make_unique<Cache>(c.method, c.constants, tokens, c.method.page, seed);
    cache->layer = c.method.layers - 1;
    const Inputs inputs = makeInputs(c.method, tokens, 1, Data::random, seed);
    cache->append(*kernels, Rows(c.method.key.rows, inputs.k), Rows(c.method.value.rows, inputs.v),
                  0, tokens);
    const Constants constants(c.method, cache->constants);
    for (auto [side, rows] : {std::pair('k', &keys), std::pair('v', &values)})
      for (int head = 0; head < c.method.kv_heads; ++head)
        for (int64_t token = 0; token < tokens; ++token) {
          const std::vector<double> row =
              dequantize(c.method, cache->layout, constants, {cache->layer, head},
                         cache->record(token, head), side, token % cache->page);
          rows->insert(rows->end(), row.begin(), row.end());
        }
  }
};

/// Page ids of all sequences, and where each begins: its own pages alone by indptr, else rows of
/// the whole table.
std::vector<int32_t> tablesOf(const Cache &cache, const Request &request,
                              std::vector<int32_t> &begins) {
  std::vector<int32_t> ids, counts;
  for (int32_t length : request.lengths) {
    counts.push_back(request.indptr ? (length + cache.page - 1) / cache.page
                                    : int32_t(cache.table.size()));
    ids.insert(ids.end(), cache.table.begin(), cache.table.begin() + counts.back());
  }
  begins = indptrOf(counts);
  return ids;
}

/// f32 rows [query token][head][dim], all bits set where nothing was written.
Cache::Attention decode(const Filled &filled, const Request &request, const std::vector<float> &q,
                        const std::vector<float> &sinks) {
  const CacheMethod &m = filled.cache->method;
  const int64_t heads = m.kv_heads * request.ratio, dim = m.value.record.dim;
  Cache::Attention result;
  result.out.assign(request.tokens() * heads * dim, NAN);
  result.lse.assign(request.tokens() * heads, NAN);
  std::vector<int32_t> pageBegins;
  const std::vector<int32_t> tables = tablesOf(*filled.cache, request, pageBegins),
                             queryBegins = indptrOf(request.queryLengths);
  kvq_decode_kernel_args args{};
  args.q = q.data(), args.out = result.out.data(), args.lse = result.lse.data();
  args.q_head_stride = 4 * m.key.record.dim, args.q_token_stride = heads * args.q_head_stride;
  args.out_head_stride = 4 * dim, args.out_token_stride = heads * args.out_head_stride;
  args.lse_head_stride = 4, args.lse_token_stride = 4 * heads;
  args.q_indptr = request.indptr ? queryBegins.data() : nullptr;
  args.q_length = request.bound(), args.ratio = request.ratio;
  const int64_t rowClass = filled.kernels->workspace.queries;
  args.row_blocks = (args.q_length * args.ratio + rowClass - 1) / rowClass;
  args.pool = filled.cache->pool, args.head_stride = filled.cache->layout.stride;
  args.page_stride = m.kv_heads * args.head_stride, args.page_tokens = filled.cache->page;
  args.block_table = tables.data(), args.block_table_stride = 4 * filled.cache->pages;
  args.page_indptr = request.indptr ? pageBegins.data() : nullptr;
  args.lengths = request.lengths.data();
  args.max_length = *std::max_element(request.lengths.begin(), request.lengths.end());
  args.batch = int64_t(request.lengths.size()), args.kv_heads = m.kv_heads;
  args.split_tokens = request.split;
  args.max_splits = std::max<int64_t>(1, (args.max_length + request.split - 1) / request.split);
  args.window = request.window ? request.window : INT32_MAX;
  args.sinks = sinks.empty() ? nullptr : sinks.data();
  args.scale = m.attention.scale, args.layer = filled.cache->layer;
  args.constants = filled.cache->constants;
  const int64_t segments = args.batch * m.kv_heads * args.row_blocks;
  std::vector<float> query(segments * filled.kernels->workspace.queryFloats(), NAN);
  std::vector<float> partial(segments * args.max_splits * filled.kernels->workspace.partialFloats(),
                             NAN);
  args.query = query.data(), args.partial = partial.data();
  for (int64_t item = 0; item < segments; ++item)
    filled.kernels->prepare(&args, item);
  for (int64_t item = segments * args.max_splits; item-- > 0;)
    filled.kernels->decode(&args, item);
  for (int64_t item = 0; item < segments; ++item)
    filled.kernels->merge(&args, item);
  return result;
}

/// A row of attention: the definition, term by term. Returns the log-sum-exp.
double attend(const Filled &filled, const Request &request, const float *q, int64_t head,
              int64_t position, double sink, std::vector<double> &out) {
  const CacheMethod &m = filled.cache->method;
  const int64_t keyDim = m.key.record.dim, valueDim = m.value.record.dim;
  const int64_t first = request.window ? std::max<int64_t>(0, position - request.window + 1) : 0;
  out.assign(valueDim, 0);
  if (position < 0)
    return -INFINITY;
  std::vector<double> logits;
  for (int64_t token = first; token <= position; ++token) {
    double x = 0;
    for (int64_t d = 0; d < keyDim; ++d)
      x += q[d] * filled.keys[(head * filled.tokens + token) * keyDim + d];
    x *= double(m.attention.scale);
    const double cap = m.attention.softcap;
    logits.push_back(cap > 0 ? cap * std::tanh(x / cap) : x);
  }
  const double top = std::max(sink, *std::max_element(logits.begin(), logits.end()));
  double sum = std::exp(sink - top);
  for (double x : logits)
    sum += std::exp(x - top);
  for (int64_t token = first; token <= position; ++token)
    for (int64_t d = 0; d < valueDim; ++d)
      out[d] += std::exp(logits[token - first] - top) / sum *
                filled.values[(head * filled.tokens + token) * valueDim + d];
  return top + std::log(sum);
}

void checkRow(const float *got, double gotLse, const std::vector<double> &out, double lse) {
  if (std::isinf(lse)) {
    EXPECT_TRUE(std::all_of(got, got + out.size(), [](float x) { return x == 0; }));
    EXPECT_EQ(gotLse, -INFINITY);
    return;
  }
  double error = 0, size = 0;
  for (size_t d = 0; d < out.size(); ++d) {
    error += (got[d] - out[d]) * (got[d] - out[d]);
    size += out[d] * out[d];
  }
  EXPECT_LE(std::sqrt(error / size), kAttentionError);
  EXPECT_LE(std::fabs(gotLse - lse), kLseError * std::max(1.0, std::fabs(lse)));
}

std::vector<float> draw(int64_t count, float size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<float> out(count);
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

void check(const Filled &filled, const Request &request, uint64_t seed) {
  SCOPED_TRACE(request.text());
  const CacheMethod &m = filled.cache->method;
  const int64_t heads = m.kv_heads * request.ratio, dim = m.value.record.dim;
  const std::vector<float> q = draw(request.tokens() * heads * m.key.record.dim, 2, seed);
  const std::vector<float> sinks = request.sinks ? draw(heads, 3, seed + 1) : std::vector<float>();
  const Cache::Attention got = decode(filled, request, q, sinks);
  int64_t token = 0;
  for (size_t i = 0; i < request.lengths.size(); ++i)
    for (int32_t own = 0; own < request.queryLengths[i]; ++own, ++token)
      for (int64_t head = 0; head < heads; ++head) {
        SCOPED_TRACE("length " + std::to_string(request.lengths[i]) + " query token " +
                     std::to_string(own) + " of " + std::to_string(request.queryLengths[i]) +
                     " head " + std::to_string(head));
        const int64_t row = token * heads + head;
        std::vector<double> out;
        const double lse = attend(filled, request, &q[row * m.key.record.dim], head / request.ratio,
                                  request.lengths[i] - request.queryLengths[i] + own,
                                  request.sinks ? sinks[head] : -INFINITY, out);
        checkRow(&got.out[row * dim], got.lse[row], out, lse);
      }
}

/// f32 rows, so that the error is the kernel's alone.
MethodCase exact(MethodCase c, float softcap) {
  c.method.attention.rows = ElementType::f32;
  c.method.attention.rotate_query = c.method.attention.unrotate_output = true;
  c.method.attention.softcap = softcap;
  return c;
}

const std::vector<int32_t> kLengths = {0, 1, 15, 16, 17, 63, 64, 65, 150, 3};
const std::vector<int32_t> kRagged = {2, 1, 0, 16, 5, 1, 0, 8, 3, 7};

Request uniform(int32_t queryLength, int64_t ratio, int64_t window = 0, bool sinks = false) {
  return {kLengths, std::vector<int32_t>(kLengths.size(), queryLength), false, ratio, window, 64,
          sinks};
}

TEST(QueryRows, RandomMethods) {
  const float softcaps[] = {0, 1, 30, 50};
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const MethodCase c = exact(randomMethod(seed * 4243), softcaps[seed % 4]);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + c.text);
    const Filled filled(c, 150, seed);
    ASSERT_TRUE(filled.kernels);
    const int64_t ratio = 1 + int64_t(seed * 5 % 16), window = seed % 3 ? int64_t(seed * 7) : 0;
    check(filled, uniform(1 + int32_t(seed % 16), ratio, window, seed % 2), seed);
    check(filled, {kLengths, kRagged, true, ratio, window, seed % 2 ? 64 : 1024, seed % 2 == 0},
          seed + 100);
  }
}

/// Around the library's ratio of 4, whose rows a block holds, and far beyond it.
TEST(QueryRows, EveryLengthAndRatio) {
  const Filled filled(exact(plainMethod(64, 32, 4), 0), 150, 3);
  ASSERT_TRUE(filled.kernels);
  for (int32_t queryLength = 1; queryLength <= 16; ++queryLength)
    check(filled, uniform(queryLength, 1 + queryLength % 5), uint64_t(queryLength));
  for (int64_t ratio : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32})
    check(filled, {kLengths, kRagged, true, ratio}, uint64_t(ratio));
}

TEST(QueryRows, WindowsAtTheEndsOfTilesAndSplits) {
  for (float softcap : {0.0f, 30.0f}) {
    const Filled filled(exact(plainMethod(64, 32, 2), softcap), 1100, 5);
    ASSERT_TRUE(filled.kernels);
    for (int64_t window : {1, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025, 5000})
      for (int64_t split : {64, 1024})
        check(filled,
              {{1100, 1024, 17, 0, 1025}, {4, 1, 3, 2, 2}, true, 2, window, split, window % 2 == 0},
              uint64_t(window));
  }
}

/// Each of eight query tokens has the bits that it has alone, in a sequence that ends with it.
TEST(QueryRows, EightTokensEqualEightCalls) {
  const Filled filled(exact(plainMethod(64, 96, 3), 0), 150, 7);
  ASSERT_TRUE(filled.kernels);
  const int64_t heads = 6, perToken = heads * 64, dim = 96;
  const std::vector<float> q = draw(8 * perToken, 1, 8), sinks = draw(heads, 1, 9);
  for (int32_t length : {8, 70, 128, 150})
    for (int64_t window : {0, 20}) {
      const Cache::Attention all = decode(filled, {{length}, {8}, false, 3, window}, q, sinks);
      for (int32_t i = 0; i < 8; ++i) {
        SCOPED_TRACE("token " + std::to_string(i) + " of length " + std::to_string(length));
        const std::vector<float> own(&q[i * perToken], &q[i * perToken] + perToken);
        const Cache::Attention one =
            decode(filled, {{length - 7 + i}, {1}, false, 3, window}, own, sinks);
        EXPECT_TRUE(std::equal(one.out.begin(), one.out.end(), &all.out[i * heads * dim]));
        EXPECT_TRUE(std::equal(one.lse.begin(), one.lse.end(), &all.lse[i * heads]));
      }
    }
}

} // namespace
} // namespace kvq::test

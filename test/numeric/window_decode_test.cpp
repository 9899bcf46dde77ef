// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decode over records and high-precision windows against attention in double over the same rows:
// those in records dequantized, the others as they are stored. Bytes of windows that hold no token
// are NaN.
#include "runtime/reference/Attention.h"
#include "runtime/reference/Tolerances.h"
#include "runtime/reference/Windows.h"
#include "runtime/reference/convert.h"
#include "test/numeric/Kernels.h"
#include "test/numeric/Methods.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvq::test {
namespace {

/// Which tokens lie where: see kvq_window_places.
struct Placement {
  int64_t length, quantized;
  int page, ringPages; ///< of windows
};

/// A pool of window pages, and where those of one sequence lie.
class Windows {
public:
  Windows(const CacheMethod &method, const Placement &place)
      : method(method), place(place), headBytes(windowBytes(method, place.page)) {
    const int sinkPages = (method.sink + place.page - 1) / place.page;
    storage.assign((sinkPages + place.ringPages) * method.kv_heads * headBytes + 64, 0xff);
    // Pages from the last to the first; an id past the last needed page would fault.
    for (int page = sinkPages + place.ringPages; page-- > 0;)
      (int(sinkTable.size()) < sinkPages ? sinkTable : ringTable).push_back(page);
    sinkTable.push_back(INT32_MAX);
    ringTable.push_back(INT32_MAX);
  }

  uint8_t *pool() {
    return storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64;
  }

  /// Stores a row unless its token lies in a record.
  void store(int64_t token, int head, char side, const std::vector<float> &rotated) {
    const TokenPlace at =
        placeOf(method, place.quantized, int64_t(place.ringPages) * place.page, token);
    if (at.segment == Segment::records)
      return;
    const int32_t id = (at.segment == Segment::sink ? sinkTable : ringTable)[at.row / place.page];
    putWindowRow(method, place.page, pool() + (int64_t(id) * method.kv_heads + head) * headBytes,
                 side, at.row % place.page, rotated);
  }

  /// The pages of a segment for the oracle.
  CachedPages pages(Segment segment) {
    CachedPages out{{}, headBytes, place.page};
    const std::vector<int32_t> &table = segment == Segment::sink ? sinkTable : ringTable;
    for (size_t i = 0; i + 1 < table.size(); ++i)
      out.pages.push_back(pool() + table[i] * method.kv_heads * headBytes);
    return out;
  }

  kvq_window_places places(const int32_t *quantizedLengths) {
    // The tables of the sequence are those of sequence 1; sequence 0 is empty.
    kvq_window_places places{};
    places.pool = pool();
    places.head_stride = headBytes, places.page_stride = method.kv_heads * headBytes;
    places.page_tokens = place.page;
    places.sink_table_stride = 4 * int64_t(sinkTable.size());
    places.recent_table_stride = 4 * int64_t(ringTable.size());
    tables.assign(sinkTable.size(), INT32_MAX);
    tables.insert(tables.end(), sinkTable.begin(), sinkTable.end());
    const size_t recent = tables.size();
    tables.insert(tables.end(), ringTable.size(), INT32_MAX);
    tables.insert(tables.end(), ringTable.begin(), ringTable.end());
    places.sink_table = tables.data(), places.recent_table = tables.data() + recent;
    places.capacity = int64_t(place.ringPages) * place.page;
    places.quantized_lengths = quantizedLengths;
    return places;
  }

private:
  const CacheMethod &method;
  Placement place;
  int64_t headBytes;
  std::vector<uint8_t> storage;
  std::vector<int32_t> sinkTable, ringTable, tables;
};

/// A sequence in records and windows, and what both hold.
class Sequence {
public:
  Sequence(const MethodCase &c, const Kernels &kernels, const Placement &place, uint64_t seed)
      : method(c.method), place(place), windows(c.method, place),
        records(c.method, c.constants, std::max<int64_t>(1, place.quantized), c.method.page, seed),
        inputs(makeInputs(c.method, place.length, 1, Data::random, seed)) {
    appendRecords(kernels);
    const Constants constants(method, records.constants);
    for (auto [name, side, drawn] :
         {std::tuple('k', &method.key, &inputs.k), std::tuple('v', &method.value, &inputs.v)})
      for (int head = 0; head < method.kv_heads; ++head)
        for (int64_t token = 0; token < place.length; ++token) {
          const std::vector<float> row = rowOf(*drawn, *side, token, head);
          windows.store(token, head, name,
                        quantizeRow(*side, constants, {0, head}, row.data()).rotated);
        }
    const CachedTokens cached = pages();
    for (auto [name, rows] : {std::pair('k', &keys), std::pair('v', &values)})
      for (int head = 0; head < method.kv_heads; ++head)
        for (int64_t token = 0; token < place.length; ++token) {
          const std::vector<double> row =
              cachedRow(method, records.layout, constants, {0, head}, cached, head, name, token);
          rows->insert(rows->end(), row.begin(), row.end());
        }
  }

  const CacheMethod &method;
  Placement place;
  Windows windows;
  Cache records;
  Inputs inputs;
  std::vector<double> keys, values; ///< [head][token][dim]

private:
  /// [token][head][dim] of the tokens in records.
  static std::vector<float> part(const std::vector<float> &rows, int64_t begin, int64_t count,
                                 int64_t perToken) {
    return {rows.begin() + begin * perToken, rows.begin() + (begin + count) * perToken};
  }

  void appendRecords(const Kernels &kernels) {
    const int64_t keys = int64_t(method.kv_heads) * method.key.record.dim;
    const int64_t values = int64_t(method.kv_heads) * method.value.record.dim;
    const Rows k(method.key.rows, part(inputs.k, method.sink, place.quantized, keys));
    const Rows v(method.value.rows, part(inputs.v, method.sink, place.quantized, values));
    records.append(kernels, k, v, 0, place.quantized);
  }

  std::vector<float> rowOf(const std::vector<float> &rows, const SideMethod &side, int64_t token,
                           int head) const {
    const float *row = &rows[(token * method.kv_heads + head) * side.record.dim];
    std::vector<float> result;
    for (int i = 0; i < side.record.dim; ++i)
      result.push_back(decodeElement(side.rows, encodeElement(side.rows, row[i])));
    return result;
  }

  CachedTokens pages() {
    CachedTokens out;
    out.sink = windows.pages(Segment::sink), out.recent = windows.pages(Segment::recent);
    out.records.headStride = records.layout.stride, out.records.tokens = records.page;
    for (int64_t token = 0; token < place.quantized; token += records.page)
      out.records.pages.push_back(records.record(token, 0));
    out.quantized = place.quantized;
    return out;
  }
};

struct Call {
  int64_t queryRows = 1, window = 0, splitTokens = 64;
};

/// Outputs and log-sum-exps of sequences 0, empty, and 1, [sequence][query row][query head].
Cache::Attention decode(Sequence &sequence, const Kernels &kernels, const Rows &q,
                        const Call &call) {
  const CacheMethod &m = sequence.method;
  const int64_t dim = m.value.record.dim, batch = 2;
  Rows out(q.type, batch * call.queryRows * m.q_heads * dim);
  std::fill(out.bytes.begin(), out.bytes.end(), 0xff);
  Cache::Attention result;
  result.lse.assign(batch * call.queryRows * m.q_heads, NAN);
  const int32_t lengths[] = {0, int32_t(sequence.place.length)};
  const int32_t quantized[] = {0, int32_t(sequence.place.quantized)};
  std::vector<int32_t> tables(sequence.records.pages, INT32_MAX);
  tables.insert(tables.end(), sequence.records.table.begin(), sequence.records.table.end());
  kvq_decode_kernel_args args{};
  args.q = q.bytes.data(), args.out = out.bytes.data(), args.lse = result.lse.data();
  args.q_head_stride = m.key.record.dim * elementBytes(q.type);
  args.q_token_stride = m.q_heads * args.q_head_stride;
  args.out_head_stride = dim * elementBytes(q.type);
  args.out_token_stride = m.q_heads * args.out_head_stride;
  args.lse_head_stride = 4, args.lse_token_stride = 4 * m.q_heads;
  args.q_length = args.row_blocks = call.queryRows;
  args.ratio = m.q_heads / m.kv_heads;
  args.window = call.window ? call.window : INT32_MAX;
  args.pool = sequence.records.pool;
  args.head_stride = sequence.records.layout.stride;
  args.page_stride = m.kv_heads * args.head_stride;
  args.page_tokens = sequence.records.page;
  args.block_table = tables.data(), args.block_table_stride = 4 * sequence.records.pages;
  args.lengths = lengths, args.max_length = lengths[1];
  args.batch = batch, args.kv_heads = m.kv_heads;
  args.split_tokens = call.splitTokens;
  args.max_splits = std::max<int64_t>(1, (quantized[1] + call.splitTokens - 1) / call.splitTokens);
  args.scale = m.attention.scale;
  args.constants = sequence.records.constants;
  args.windows = sequence.windows.places(quantized);
  const int64_t segments = batch * m.kv_heads * args.row_blocks, parts = args.max_splits + 1;
  std::vector<float> query(segments * kernels.workspace.queryFloats(), NAN);
  std::vector<float> partial(segments * parts * kernels.workspace.partialFloats(), NAN);
  args.query = query.data(), args.partial = partial.data();
  for (int64_t item = 0; item < segments; ++item)
    kernels.prepare(&args, item);
  for (int64_t item = segments * parts; item-- > 0;)
    kernels.decode(&args, item);
  for (int64_t item = 0; item < segments; ++item)
    kernels.merge(&args, item);
  result.out = out.values();
  return result;
}

void check(const MethodCase &c, const Kernels &kernels, const Placement &place, const Call &call) {
  SCOPED_TRACE("length " + std::to_string(place.length) + " quantized " +
               std::to_string(place.quantized) + " window " + std::to_string(call.window) +
               " query rows " + std::to_string(call.queryRows));
  const CacheMethod &m = c.method;
  Sequence sequence(c, kernels, place, place.length + place.quantized);
  const int64_t perSequence = call.queryRows * m.q_heads;
  const Inputs drawn = makeInputs(m, 1, 2 * call.queryRows, Data::random, 99);
  const Rows q(m.attention.rows, drawn.q);
  const Cache::Attention got = decode(sequence, kernels, q, call);
  AttentionRule rule;
  rule.scale = m.attention.scale, rule.softcap = m.attention.softcap, rule.window = call.window;
  const AttentionShape shape{m.q_heads, m.kv_heads, m.key.record.dim, m.value.record.dim,
                             call.queryRows};
  const std::vector<float> rows = q.values();
  const std::vector<double> queries(rows.begin() + perSequence * m.key.record.dim, rows.end());
  const AttentionResult expected =
      exactAttention(shape, rule, place.length, queries, sequence.keys, sequence.values);
  const int64_t dim = m.value.record.dim;
  const double bound = kAttentionError + outputRounding(m.attention.rows);
  for (int64_t row = 0; row < perSequence; ++row) {
    for (int64_t channel = 0; channel < dim; ++channel)
      ASSERT_EQ(got.out[row * dim + channel], 0) << "the empty sequence";
    ASSERT_EQ(got.lse[row], -INFINITY);
    const int64_t at = perSequence + row;
    const std::vector<double> out(got.out.begin() + at * dim, got.out.begin() + (at + 1) * dim);
    EXPECT_LE(relativeError(out.data(), &expected.out[row * dim], dim), bound) << "row " << row;
    EXPECT_LE(std::fabs(got.lse[at] - expected.lse[row]),
              kLseError * std::max(1.0, std::fabs(expected.lse[row])))
        << "row " << row;
  }
}

/// 2-bit codes of rotated keys, off their mean, and rotated values.
MethodCase windowed(int sink, int recent, double softcap) {
  MethodCase c = plainMethod(64, 96, 3);
  std::mt19937_64 random(7);
  addCenter(c, /*key=*/true, ElementType::f32, random);
  addRotation(c, /*key=*/true, Rotation::hadamard, ElementType::bf16, random);
  addRotation(c, /*key=*/false, Rotation::blockHadamard, ElementType::bf16, random);
  c.method.sink = sink, c.method.recent = recent;
  c.method.attention.softcap = softcap;
  return c;
}

/// From the first token to a ring that went round, demoted one by one, eight or a page at a time.
const Placement kPlaces[] = {{1, 0, 16, 4},    {3, 0, 16, 4},     {20, 0, 16, 4},
                             {61, 0, 16, 4},   {67, 8, 16, 4},    {84, 33, 16, 4},
                             {130, 96, 32, 2}, {300, 260, 16, 4}, {300, 296, 16, 4}};

void checkAll(int sink, int recent, double softcap, std::initializer_list<Call> calls) {
  const MethodCase c = windowed(sink, recent, softcap);
  const auto kernels = Kernels::compile(c.method, mlir::kvq::hostCpuLevel());
  ASSERT_TRUE(kernels);
  for (const Placement &place : kPlaces)
    for (const Call &call : calls)
      if (place.length >= call.queryRows && place.length >= sink + place.quantized)
        check(c, *kernels, place, call);
}

TEST(WindowDecode, SinkAndRecent) { checkAll(4, 32, 0, {{1}, {3}}); }
TEST(WindowDecode, RecentAlone) { checkAll(0, 32, 0, {{1}, {2, 0, 32}}); }
TEST(WindowDecode, SinkAlone) { checkAll(17, 0, 0, {{1}}); }
TEST(WindowDecode, SlidingWindow) { checkAll(4, 32, 0, {{1, 10}, {3, 60}, {2, 250}}); }
TEST(WindowDecode, Softcap) { checkAll(4, 32, 2, {{1}, {2, 20}}); }

} // namespace
} // namespace kvq::test

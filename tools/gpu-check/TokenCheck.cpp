// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/TokenCheck.h"

#include "runtime/reference/Append.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvq {
namespace {

constexpr int64_t kPage = 64, kCount = 100, kReserved = 3;
constexpr double kRowError = 2e-6; ///< of a row in f32, relative to its largest element

RowShape shapeOf(const Subject &subject, int64_t count, int queryTokens) {
  const CacheMethod &method = subject.method;
  RowShape shape;
  shape.tokens = count, shape.heads = method.kv_heads;
  shape.group = queryTokens * subject.group();
  shape.keyDim = method.key.record.dim, shape.valueDim = method.value.record.dim;
  shape.scale = method.attention.scale;
  return shape;
}

/// Rows [tokens, heads, dim] of a side on the device, and where they come from.
class Dequantized {
public:
  Dequantized(const Subject &subject, const SideMethod &side, char name)
      : side(side), name(name), heads(subject.method.kv_heads),
        buffer(subject.device, size_t(4 * kCount * heads * side.record.dim)) {
    buffer.fill(0xff);
  }

  int64_t headStride() const { return 4 * side.record.dim; }
  void *data() const { return buffer.data(); }

  /// Empty, or the first row that is not what the pages hold.
  std::string compare(const Subject &subject, const RecordLayout &layout,
                      const std::vector<uint8_t> &pages, RowBasis basis) const {
    std::vector<float> got(buffer.bytes() / 4);
    buffer.read(got.data());
    for (int64_t i = 0; i < kCount * heads; ++i) {
      const int64_t token = i / heads, head = i % heads;
      const float *row = &got[size_t(i * side.record.dim)];
      if (token == kReserved) {
        if (!std::isnan(row[0]))
          return "the token of the reserved slot was written";
        continue;
      }
      const std::vector<double> expected =
          dequantize(subject.method, layout, subject.constants, {subject.layer, head},
                     &pages[size_t((token / kPage * heads + head) * layout.stride)], name,
                     token % kPage, basis);
      if (std::string error = compareRow(row, expected); !error.empty())
        return std::string(1, name) + " of token " + std::to_string(token) + ", head " +
               std::to_string(head) + ": " + error;
    }
    return "";
  }

private:
  static std::string compareRow(const float *got, const std::vector<double> &expected) {
    double most = 1e-30;
    for (double x : expected)
      most = std::max(most, std::fabs(x));
    for (size_t d = 0; d < expected.size(); ++d)
      if (!(std::fabs(double(got[d]) - expected[d]) <= kRowError * most)) // NaN too
        return "channel " + std::to_string(d) + ": expected " + std::to_string(expected[d]) +
               ", got " + std::to_string(got[d]) + ", largest " + std::to_string(most);
    return "";
  }

  const SideMethod &side;
  char name;
  int64_t heads;
  Buffer buffer;
};

} // namespace

TokenRows::TokenRows(const Subject &subject, const RowKind &kind, int64_t count, int queryTokens,
                     uint64_t seed)
    : TokenRows(subject, makeSequence(kind, shapeOf(subject, count, queryTokens), seed), count,
                queryTokens) {}

TokenRows::TokenRows(const Subject &subject, const SequenceRows &rows, int64_t count,
                     int queryTokens)
    : queries(queriesByToken(rows.queries, subject.method.kv_heads, queryTokens,
                             int64_t(subject.group()) * subject.method.key.record.dim)),
      k(encodeRows(subject.method.key.rows, rows.keys, count, subject.method.kv_heads,
                   subject.method.key.record.dim, 0)),
      v(encodeRows(subject.method.value.rows, rows.values, count, subject.method.kv_heads,
                   subject.method.value.record.dim, 0)),
      keys(upload(subject.device, k.bytes)), values(upload(subject.device, v.bytes)) {
  roundRows(subject.method.attention.rows, queries);
}

kvq_token_args TokenRows::arguments(const Subject &subject, int64_t first, const Buffer &slots,
                                    int64_t tokens) const {
  kvq_token_args args = {};
  args.size = sizeof args;
  args.k = keys.data() + first * k.outerStride, args.v = values.data() + first * v.outerStride;
  args.k_token_stride = k.outerStride, args.k_head_stride = k.innerStride;
  args.v_token_stride = v.outerStride, args.v_head_stride = v.innerStride;
  args.slots = slots.data(), args.tokens = tokens, args.flags = KVQ_SLOTS_32;
  args.place.layer = subject.layer;
  args.execution.stream = subject.device.stream();
  return args;
}

CheckResult checkDequantize(const Subject &subject, const RowKind &kind, bool stored) {
  CheckResult result;
  result.name = std::string("dequantize ") + (stored ? "stored " : "model ") + kind.name();
  const CacheMethod &method = subject.method;
  const RecordLayout layout = subject.layout(kPage);
  const TokenRows rows(subject, kind, kCount, 0, 7);
  const int64_t pageStride = layout.stride * method.kv_heads;
  const Buffer pool(subject.device, size_t(2 * pageStride));
  pool.fill(0xff);
  std::vector<int32_t> ids(kCount);
  std::iota(ids.begin(), ids.end(), 0);
  const Buffer slots = upload(subject.device, ids);
  kvq_token_args args = rows.arguments(subject, 0, slots, kCount);
  args.pool = {pool.data(), pageStride, layout.stride, kPage};
  require("append", kvq_append(subject.library.get(), &args));
  const Dequantized k(subject, method.key, 'k'), v(subject, method.value, 'v');
  args.k = k.data(), args.k_head_stride = k.headStride();
  args.v = v.data(), args.v_head_stride = v.headStride();
  args.k_token_stride = method.kv_heads * args.k_head_stride;
  args.v_token_stride = method.kv_heads * args.v_head_stride;
  args.flags |= KVQ_ROWS_F32 | KVQ_RESERVED_SLOT | (stored ? KVQ_STORED_BASIS : 0u);
  args.reserved_slot = kReserved;
  require("dequantize", kvq_dequantize(subject.library.get(), &args));
  subject.device.synchronize();
  std::vector<uint8_t> pages(pool.bytes());
  pool.read(pages.data());
  for (const Dequantized *side : {&k, &v})
    if (result.failure.empty())
      result.failure =
          side->compare(subject, layout, pages, stored ? RowBasis::rotated : RowBasis::model);
  return result;
}

} // namespace kvq

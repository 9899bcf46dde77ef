// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/Checks.h"

#include "runtime/reference/Append.h"
#include "tools/device/Parallel.h"
#include "tools/gpu-check/Rows.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace kvq {
namespace {

constexpr int64_t kTokens = 150;
constexpr int64_t kPad = 32; ///< between rows, bytes

/// Tokens and the slots they go to.
struct Batch {
  SequenceRows rows; ///< rounded to the row types
  EncodedRows keys, values;
  std::vector<int64_t> slots;
};

/// A pool with gaps between records and pages.
struct Pool {
  RecordLayout layout;
  int64_t page, pages, headStride, pageStride;

  Pool(const Subject &subject, int64_t page)
      : layout(subject.layout(page)), page(page), pages((kTokens + page - 1) / page + 3),
        headStride(layout.stride + KVQ_RECORD_ALIGN),
        pageStride(subject.method.kv_heads * headStride + 2 * KVQ_RECORD_ALIGN) {}
  int64_t bytes() const { return pages * pageStride; }
  int64_t record(int64_t slot, int64_t head) const {
    return slot / page * pageStride + head * headStride;
  }
};

Batch makeBatch(const Subject &subject, const Pool &pool, const RowKind &kind, uint64_t seed) {
  const CacheMethod &method = subject.method;
  RowShape shape;
  shape.tokens = kTokens, shape.heads = method.kv_heads, shape.group = 1;
  shape.keyDim = method.key.record.dim, shape.valueDim = method.value.record.dim;
  shape.scale = method.attention.scale;
  Batch batch;
  batch.rows = makeSequence(kind, shape, seed);
  addHardRows(batch.rows.keys, shape.keyDim, seed);
  addHardRows(batch.rows.values, shape.valueDim, seed + 1);
  roundRows(method.key.rows, batch.rows.keys);
  roundRows(method.value.rows, batch.rows.values);
  batch.keys =
      encodeRows(method.key.rows, batch.rows.keys, kTokens, shape.heads, shape.keyDim, kPad);
  batch.values =
      encodeRows(method.value.rows, batch.rows.values, kTokens, shape.heads, shape.valueDim, kPad);
  batch.slots.resize(pool.pages * pool.page);
  std::iota(batch.slots.begin(), batch.slots.end(), 0);
  std::mt19937_64 random(seed);
  std::shuffle(batch.slots.begin(), batch.slots.end(), random);
  batch.slots.resize(kTokens);
  for (int64_t i = 0; i < kTokens; i += 1 + int64_t(random() % 12))
    batch.slots[i] = -1 - int64_t(random() % 100);
  return batch;
}

/// The pool after the library appended tokens [first, end) in calls of `step`.
std::vector<uint8_t> appendByLibrary(const Subject &subject, const Pool &pool, const Batch &batch,
                                     int64_t step) {
  Device &device = subject.device;
  const Buffer keys(device, batch.keys.bytes.size()), values(device, batch.values.bytes.size());
  const Buffer slots(device, 8 * batch.slots.size()), memory(device, size_t(pool.bytes()));
  keys.write(batch.keys.bytes.data()), values.write(batch.values.bytes.data());
  slots.write(batch.slots.data()), memory.fill(0xff);
  kvq_token_args args = {};
  args.size = sizeof args;
  args.k_token_stride = batch.keys.outerStride, args.k_head_stride = batch.keys.innerStride;
  args.v_token_stride = batch.values.outerStride, args.v_head_stride = batch.values.innerStride;
  args.pool = {memory.data(), pool.pageStride, pool.headStride, pool.page};
  args.place.layer = subject.layer;
  args.execution.stream = device.stream();
  // From the last to the first: the order of calls does not matter.
  for (int64_t end = kTokens; end > 0; end -= step) {
    const int64_t first = std::max<int64_t>(0, end - step);
    args.k = keys.data() + first * args.k_token_stride;
    args.v = values.data() + first * args.v_token_stride;
    args.slots = reinterpret_cast<const int64_t *>(slots.data()) + first;
    args.tokens = end - first;
    require("append", kvq_append(subject.library.get(), &args));
  }
  device.synchronize();
  std::vector<uint8_t> out(pool.bytes());
  memory.read(out.data());
  return out;
}

std::vector<uint8_t> appendByOracle(const Subject &subject, const Pool &pool, const Batch &batch) {
  const CacheMethod &method = subject.method;
  std::vector<uint8_t> out(pool.bytes(), 0xff);
  parallelFor(method.kv_heads, [&](int64_t head) {
    for (int64_t token = 0; token < kTokens; ++token) {
      const int64_t slot = batch.slots[token], row = token * method.kv_heads + head;
      if (slot >= 0)
        appendToken(method, pool.layout, subject.constants, {subject.layer, head},
                    &out[pool.record(slot, head)], slot % pool.page,
                    &batch.rows.keys[row * method.key.record.dim],
                    &batch.rows.values[row * method.value.record.dim]);
    }
  });
  return out;
}

/// Names the first byte that differs; empty when none does.
std::string firstDifference(const Pool &pool, const std::vector<uint8_t> &got,
                            const std::vector<uint8_t> &expected) {
  const auto [a, b] = std::mismatch(got.begin(), got.end(), expected.begin());
  if (a == got.end())
    return "";
  const int64_t at = a - got.begin(), page = at / pool.pageStride, rest = at % pool.pageStride;
  int64_t differing = 0;
  for (size_t i = 0; i < got.size(); ++i)
    differing += got[i] != expected[i];
  return "page " + std::to_string(page) + ", head " + std::to_string(rest / pool.headStride) +
         ", byte " + std::to_string(rest % pool.headStride) + " of " +
         std::to_string(pool.layout.bytes) + ": expected " + std::to_string(*b) + ", got " +
         std::to_string(*a) + "; " + std::to_string(differing) + " bytes differ";
}

} // namespace

CheckResult checkAppend(const Subject &subject, const RowKind &kind, int64_t page, uint64_t seed) {
  CheckResult result;
  result.name = "append " + kind.name() + ", page " + std::to_string(page);
  const Pool pool(subject, page);
  const Batch batch = makeBatch(subject, pool, kind, seed);
  const std::vector<uint8_t> bulk = appendByLibrary(subject, pool, batch, kTokens);
  result.failure = firstDifference(pool, bulk, appendByOracle(subject, pool, batch));
  if (!result.failure.empty())
    return result;
  result.failure = firstDifference(pool, appendByLibrary(subject, pool, batch, 1), bulk);
  if (!result.failure.empty())
    result.failure = "one by one against bulk: " + result.failure;
  return result;
}

} // namespace kvq

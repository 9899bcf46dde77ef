// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/Scene.h"

#include "runtime/reference/convert.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace kvq {
namespace {

constexpr int64_t kPad = 16;            ///< between rows, bytes
constexpr int64_t kLooseBound = 100;    ///< by which max_length is above the longest sequence
constexpr int64_t kSparePages = 5;      ///< in no table
constexpr int64_t kAppendTokens = 8192; ///< of a call

int64_t pagesOf(int64_t tokens, int64_t page) { return (tokens + page - 1) / page; }

Buffer upload(Device &device, const void *data, size_t bytes) {
  Buffer buffer(device, bytes);
  buffer.write(data);
  return buffer;
}

} // namespace

bool Decoded::operator==(const Decoded &other) const {
  return out == other.out && lse.size() == other.lse.size() &&
         std::memcmp(lse.data(), other.lse.data(), 4 * lse.size()) == 0;
}

Scene::Scene(const Subject &subject, const SceneSpec &spec)
    : subject(subject), spec(spec), layout(subject.layout(spec.page)),
      headStride(layout.stride + KVQ_RECORD_ALIGN),
      pageStride(spec.heads * headStride + KVQ_RECORD_ALIGN) {
  placePages();
  pool.emplace(subject.device, size_t(poolPages * pageStride));
  pool->fill(0xff);
  const CacheMethod &method = subject.method;
  RowShape shape;
  shape.heads = int(spec.heads), shape.group = spec.qLength * group();
  shape.keyDim = method.key.record.dim, shape.valueDim = method.value.record.dim;
  shape.scale = method.attention.scale;
  for (int64_t i = 0; i < batch(); ++i) {
    shape.tokens = spec.lengths[i];
    SequenceRows rows = makeSequence(spec.kind, shape, spec.seed * 1000 + i);
    append(i, rows);
    roundRows(method.attention.rows, rows.queries);
    queries.push_back(byToken(rows.queries));
  }
  std::mt19937_64 random(spec.seed);
  for (int64_t head = 0; spec.sinks && head < spec.heads * group(); ++head)
    sinks.push_back(float(int64_t(random() % 8)) - 2);
}

/// [heads, qLength, group, keyDim] -> [qLength, heads, group, keyDim].
std::vector<float> Scene::byToken(const std::vector<float> &rows) const {
  const int64_t size = int64_t(group()) * subject.method.key.record.dim;
  std::vector<float> out;
  for (int64_t token = 0; token < spec.qLength; ++token)
    for (int64_t head = 0; head < spec.heads; ++head) {
      const auto from = rows.begin() + (head * spec.qLength + token) * size;
      out.insert(out.end(), from, from + size);
    }
  return out;
}

/// Page ids in random order over the whole pool, the last page of the pool among them.
void Scene::placePages() {
  int64_t needed = 0;
  for (int64_t length : spec.lengths) {
    needed += pagesOf(length, spec.page);
    columns = std::max(columns, pagesOf(length, spec.page) + 2);
  }
  poolPages = std::max(needed + kSparePages, pagesOf(spec.poolBytes, pageStride));
  std::mt19937_64 random(spec.seed);
  std::vector<int32_t> ids(poolPages);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), random);
  std::iter_swap(ids.begin(), std::find(ids.begin(), ids.end(), int32_t(poolPages - 1)));
  auto next = ids.begin();
  for (int64_t length : spec.lengths) {
    const auto end = next + pagesOf(length, spec.page);
    pages.emplace_back(next, end);
    next = end;
  }
}

void Scene::append(int64_t sequence, const SequenceRows &rows) {
  const CacheMethod &method = subject.method;
  const int keyDim = method.key.record.dim, valueDim = method.value.record.dim;
  const int64_t length = spec.lengths[sequence];
  for (int64_t first = 0; first < length; first += kAppendTokens) {
    const int64_t tokens = std::min(kAppendTokens, length - first);
    auto part = [&](const std::vector<float> &all, ElementType type, int dim) {
      const int64_t size = spec.heads * dim;
      return encodeRows(type, {all.begin() + first * size, all.begin() + (first + tokens) * size},
                        tokens, spec.heads, dim, kPad);
    };
    const EncodedRows k = part(rows.keys, method.key.rows, keyDim);
    const EncodedRows v = part(rows.values, method.value.rows, valueDim);
    std::vector<int64_t> slots;
    for (int64_t t = first; t < first + tokens; ++t)
      slots.push_back(pages[sequence][t / spec.page] * spec.page + t % spec.page);
    Device &device = subject.device;
    const Buffer keys = upload(device, k.bytes.data(), k.bytes.size());
    const Buffer values = upload(device, v.bytes.data(), v.bytes.size());
    const Buffer places = upload(device, slots.data(), 8 * slots.size());
    kvq_token_args args = {};
    args.size = sizeof args;
    args.k = keys.data(), args.v = values.data();
    args.k_token_stride = k.outerStride, args.k_head_stride = k.innerStride;
    args.v_token_stride = v.outerStride, args.v_head_stride = v.innerStride;
    args.slots = places.data(), args.tokens = tokens;
    args.pool = {pool->data(), pageStride, headStride, spec.page};
    args.place = {subject.layer, spec.firstHead, spec.heads};
    args.execution.stream = device.stream();
    require("append", kvq_append(subject.library.get(), &args));
    device.synchronize();
  }
}

/// Ids behind the last page of a sequence would fault if they were used.
std::vector<int32_t> Scene::tableOf(const std::vector<int64_t> &which) const {
  std::vector<int32_t> table(which.size() * columns, INT32_MAX);
  for (size_t i = 0; i < which.size(); ++i)
    std::copy(pages[which[i]].begin(), pages[which[i]].end(), table.begin() + i * columns);
  return table;
}

/// Everything of a decode that lies in the device's memory.
struct Scene::Inputs {
  Buffer queries, table, lengths, sinks, queryBegins, pageBegins;
  int64_t queryToken, queryHead; ///< strides, bytes
  int64_t sequences, longest;
};

Scene::Inputs Scene::inputsOf(const std::vector<int64_t> &which) const {
  const CacheMethod &method = subject.method;
  std::vector<float> all;
  std::vector<int32_t> lengths;
  for (int64_t i : which) {
    all.insert(all.end(), queries[i].begin(), queries[i].end());
    lengths.push_back(int32_t(spec.lengths[i]));
  }
  const int64_t sequences = int64_t(which.size());
  const EncodedRows q = encodeRows(method.attention.rows, all, sequences * spec.qLength,
                                   spec.heads * group(), method.key.record.dim, kPad);
  const std::vector<int32_t> table = tableOf(which);
  std::vector<int32_t> queryBegins, pageBegins;
  for (int64_t i = 0; i <= sequences; ++i) {
    queryBegins.push_back(int32_t(i * spec.qLength));
    pageBegins.push_back(int32_t(i * columns));
  }
  const std::vector<float> logits = spec.sinks ? sinks : std::vector<float>{0};
  Device &device = subject.device;
  return {upload(device, q.bytes.data(), q.bytes.size()),
          upload(device, table.data(), 4 * table.size()),
          upload(device, lengths.data(), 4 * lengths.size()),
          upload(device, logits.data(), 4 * logits.size()),
          upload(device, queryBegins.data(), 4 * queryBegins.size()),
          upload(device, pageBegins.data(), 4 * pageBegins.size()),
          q.outerStride,
          q.innerStride,
          sequences,
          *std::max_element(lengths.begin(), lengths.end())};
}

Decoded Scene::decode(int64_t splitTokens, const std::vector<int64_t> &chosen, bool repeat) {
  std::vector<int64_t> which = chosen;
  if (which.empty()) {
    which.resize(batch());
    std::iota(which.begin(), which.end(), 0);
  }
  Device &device = subject.device;
  const Inputs inputs = inputsOf(which);
  const int64_t outRow =
      subject.method.value.record.dim * elementBytes(subject.method.attention.rows) + kPad;
  const int64_t tokens = inputs.sequences * spec.qLength, heads = spec.heads * group();
  const int64_t outToken = heads * outRow + kPad, lseToken = 4 * (2 * heads + 1);
  const Buffer out(device, size_t(tokens * outToken)), lse(device, size_t(tokens * lseToken));
  kvq_decode_args args = {};
  args.size = sizeof args;
  args.q = inputs.queries.data();
  args.q_token_stride = inputs.queryToken, args.q_head_stride = inputs.queryHead;
  args.out = out.data(), args.out_token_stride = outToken, args.out_head_stride = outRow;
  args.lse = reinterpret_cast<float *>(lse.data());
  args.lse_token_stride = lseToken, args.lse_head_stride = 8;
  args.pool = {pool->data(), pageStride, headStride, spec.page};
  args.table.ids = reinterpret_cast<const int32_t *>(inputs.table.data());
  args.table.row_stride = 4 * columns, args.table.columns = columns;
  args.lengths = reinterpret_cast<const int32_t *>(inputs.lengths.data());
  args.batch = inputs.sequences, args.split_tokens = splitTokens;
  args.q_length = spec.qLength, args.q_heads = heads, args.window = spec.window;
  if (spec.sinks)
    args.sinks = reinterpret_cast<const float *>(inputs.sinks.data());
  if (spec.indptr) {
    args.q_indptr = reinterpret_cast<const int32_t *>(inputs.queryBegins.data());
    args.table.indptr = reinterpret_cast<const int32_t *>(inputs.pageBegins.data());
    args.q_length = std::min<int64_t>(spec.qLength + 3, KVQ_MAX_Q_LENGTH);
  }
  args.max_length = inputs.longest + kLooseBound;
  args.place = {subject.layer, spec.firstHead, spec.heads};
  args.execution.stream = device.stream();
  require("workspace size",
          kvq_workspace_size(subject.library.get(), &args, &args.workspace_bytes));
  const Buffer workspace(device, args.workspace_bytes);
  args.workspace = workspace.data();
  workspace.fill(0xff);
  require("workspace", kvq_workspace_init(subject.library.get(), args.workspace,
                                          args.workspace_bytes, &args.execution));
  for (int call = 0; call < (repeat ? 2 : 1); ++call) {
    out.fill(0xff), lse.fill(0xff);
    args.flags = call && device.target() == KVQ_TARGET_CUDA ? KVQ_DECODE_PLANNED : 0;
    require("decode", kvq_decode(subject.library.get(), &args));
    device.synchronize();
  }
  return collect(tokens, out, lse);
}

Decoded Scene::collect(int64_t tokens, const Buffer &out, const Buffer &lse) const {
  const ElementType type = subject.method.attention.rows;
  const int64_t size = elementBytes(type), dim = subject.method.value.record.dim;
  std::vector<uint8_t> bytes(out.bytes());
  out.read(bytes.data());
  std::vector<float> sums(lse.bytes() / 4);
  lse.read(sums.data());
  Decoded result;
  const uint8_t *at = bytes.data();
  auto skip = [&](int64_t count) {
    for (; count-- > 0; ++at)
      result.paddingKept &= *at == 0xff;
  };
  const int64_t heads = spec.heads * group();
  for (int64_t s = 0; s < tokens; ++s) {
    for (int64_t row = 0; row < heads; ++row) {
      for (int64_t d = 0; d < dim; ++d, at += size) {
        uint32_t bits = 0;
        std::memcpy(&bits, at, size);
        result.out.push_back(bits);
      }
      skip(kPad);
      result.lse.push_back(sums[s * (2 * heads + 1) + 2 * row]);
      result.paddingKept &= floatBits(sums[s * (2 * heads + 1) + 2 * row + 1]) == 0xffffffff;
    }
    skip(kPad);
    result.paddingKept &= floatBits(sums[(s + 1) * (2 * heads + 1) - 1]) == 0xffffffff;
  }
  return result;
}

const std::vector<AttentionResult> &Scene::expected() {
  if (!results.empty())
    return results;
  for (int64_t i = 0; i < batch(); ++i) {
    std::vector<uint8_t> bytes(pages[i].size() * pageStride);
    CachedSequence sequence;
    sequence.length = spec.lengths[i], sequence.page = spec.page;
    sequence.firstHead = spec.firstHead, sequence.heads = spec.heads;
    sequence.headStride = headStride;
    for (size_t p = 0; p < pages[i].size(); ++p) {
      uint8_t *copy = &bytes[p * pageStride];
      subject.device.read(copy, pool->data() + pages[i][p] * pageStride, pageStride);
      sequence.pages.push_back(copy);
    }
    sequence.group = group(), sequence.qLength = spec.qLength;
    sequence.window = spec.window, sequence.sinks = sinks;
    sequence.queries = queries[i];
    results.push_back(expectedAttention(subject, sequence));
  }
  return results;
}

} // namespace kvq

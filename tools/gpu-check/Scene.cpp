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

} // namespace

bool Decoded::operator==(const Decoded &other) const {
  return out == other.out && lse.size() == other.lse.size() &&
         std::memcmp(lse.data(), other.lse.data(), 4 * lse.size()) == 0;
}

Scene::Scene(const Subject &subject, const SceneSpec &spec)
    : subject(subject), spec(spec), layout(subject.layout(spec.page)),
      headStride(layout.stride + KVQ_RECORD_ALIGN),
      pageStride(spec.heads * headStride + KVQ_RECORD_ALIGN) {
  placePages(spec.seed);
  pool.emplace(subject.device, size_t(poolPages * pageStride));
  pool->fill(0xff);
  const CacheMethod &method = subject.method;
  RowShape shape;
  shape.heads = int(spec.heads);
  shape.keyDim = method.key.record.dim, shape.valueDim = method.value.record.dim;
  shape.scale = method.attention.scale;
  SequenceRows first;
  for (int64_t i = 0; i < batch(); ++i) {
    shape.tokens = spec.lengths[i], shape.group = queryTokens(i) * group();
    SequenceRows rows = makeSequence(spec.kind, shape, spec.seed * 1000 + i);
    if (i == 0 && spec.prefix)
      first = rows;
    std::copy_n(first.keys.begin(), spec.prefix * spec.heads * shape.keyDim, rows.keys.begin());
    std::copy_n(first.values.begin(), spec.prefix * spec.heads * shape.valueDim,
                rows.values.begin());
    append(i, rows);
    roundRows(method.attention.rows, rows.queries);
    queries.push_back(
        queriesByToken(rows.queries, spec.heads, queryTokens(i), group() * shape.keyDim));
  }
  std::mt19937_64 random(spec.seed);
  // Those that a library holds are of its own query heads.
  this->spec.sinks |= subject.method.attention.sinks >= 0 && group() != subject.group();
  for (int64_t head = 0; this->spec.sinks && head < spec.heads * group(); ++head)
    sinks.push_back(float(int64_t(random() % 8)) - 2);
}

/// Page ids in random order over the whole pool, the last page of the pool among them.
void Scene::placePages(uint64_t seed) {
  int64_t needed = 0;
  for (int64_t length : spec.lengths) {
    needed += pagesOf(length, spec.page);
    columns = std::max(columns, pagesOf(length, spec.page) + 2);
  }
  poolPages = std::max(needed + kSparePages, pagesOf(spec.poolBytes, pageStride));
  std::vector<int32_t> ids(poolPages);
  std::iota(ids.begin(), ids.end(), 0);
  if (!spec.atEnd) {
    std::shuffle(ids.begin(), ids.end(), std::mt19937_64(seed));
    std::iter_swap(ids.begin(), std::find(ids.begin(), ids.end(), int32_t(poolPages - 1)));
  }
  auto next = spec.atEnd ? ids.end() - needed : ids.begin();
  pages.clear();
  for (int64_t length : spec.lengths) {
    const auto end = next + pagesOf(length, spec.page);
    pages.emplace_back(next, end);
    next = end;
    if (spec.sharePrefix)
      std::copy_n(pages[0].begin(), spec.prefix / spec.page, pages.back().begin());
  }
}

void Scene::append(int64_t sequence, const SequenceRows &rows) {
  const CacheMethod &method = subject.method;
  const int keyDim = method.key.record.dim, valueDim = method.value.record.dim;
  const int64_t length = spec.lengths[sequence];
  // A sequence that begins with pages of the first does not write them.
  const int64_t begin = spec.sharePrefix && sequence ? spec.prefix : 0;
  for (int64_t first = begin; first < length; first += kAppendTokens) {
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
    const Buffer keys = upload(device, k.bytes), values = upload(device, v.bytes);
    const Buffer places = upload(device, slots);
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
std::vector<int32_t> Scene::tableOf(const std::vector<Part> &parts) const {
  std::vector<int32_t> table(parts.size() * columns, INT32_MAX);
  for (size_t i = 0; i < parts.size(); ++i)
    std::copy(pages[parts[i].sequence].begin(), pages[parts[i].sequence].end(),
              table.begin() + i * columns);
  return table;
}

/// Everything of a decode that lies in the device's memory.
struct Scene::Inputs {
  Buffer queries, table, lengths, sinks, queryBegins, pageBegins;
  int64_t queryToken, queryHead; ///< strides, bytes
  int64_t sequences, tokens, mostTokens, longest;
};

Scene::Inputs Scene::inputsOf(const std::vector<Part> &parts) const {
  const CacheMethod &method = subject.method;
  const int64_t size = spec.heads * group() * method.key.record.dim; // of a query token
  std::vector<float> all;
  std::vector<int32_t> lengths, queryBegins = {0}, pageBegins = {0};
  int64_t most = 0;
  for (const Part &part : parts) {
    const std::vector<float> &own = queries[part.sequence];
    all.insert(all.end(), own.begin() + part.first * size,
               own.begin() + (part.first + part.count) * size);
    const int after = queryTokens(part.sequence) - part.first - part.count;
    lengths.push_back(int32_t(spec.lengths[part.sequence] - after));
    queryBegins.push_back(queryBegins.back() + part.count);
    pageBegins.push_back(pageBegins.back() + int32_t(columns));
    most = std::max<int64_t>(most, part.count);
  }
  const EncodedRows q = encodeRows(method.attention.rows, all, queryBegins.back(),
                                   spec.heads * group(), method.key.record.dim, kPad);
  const std::vector<float> logits = spec.sinks ? sinks : std::vector<float>{0};
  Device &device = subject.device;
  return {upload(device, q.bytes),
          upload(device, tableOf(parts)),
          upload(device, lengths),
          upload(device, logits),
          upload(device, queryBegins),
          upload(device, pageBegins),
          q.outerStride,
          q.innerStride,
          int64_t(parts.size()),
          queryBegins.back(),
          most,
          *std::max_element(lengths.begin(), lengths.end())};
}

/// All but outputs and workspace.
kvq_decode_args Scene::argumentsOf(const Inputs &inputs, int64_t splitTokens) const {
  kvq_decode_args args = {};
  args.size = sizeof args;
  args.q = inputs.queries.data();
  args.q_token_stride = inputs.queryToken, args.q_head_stride = inputs.queryHead;
  args.pool = {pool->data(), pageStride, headStride, spec.page};
  args.table.ids = at<int32_t>(inputs.table);
  args.table.row_stride = 4 * columns, args.table.columns = columns;
  args.lengths = at<int32_t>(inputs.lengths);
  args.batch = inputs.sequences, args.split_tokens = splitTokens;
  args.q_length = inputs.mostTokens, args.q_heads = spec.heads * group();
  args.window = spec.window;
  if (spec.sinks)
    args.sinks = at<float>(inputs.sinks);
  if (spec.indptr || !spec.qLengths.empty()) {
    args.q_indptr = at<int32_t>(inputs.queryBegins);
    args.table.indptr = at<int32_t>(inputs.pageBegins);
    args.q_length = std::min<int64_t>(inputs.mostTokens + 3, KVQ_MAX_Q_LENGTH);
  }
  args.max_length = inputs.longest + kLooseBound;
  args.place = {subject.layer, spec.firstHead, spec.heads};
  args.execution.stream = subject.device.stream();
  return args;
}

Decoded Scene::decode(int64_t splitTokens, const std::vector<int64_t> &chosen, bool repeat) {
  std::vector<int64_t> which = chosen;
  if (which.empty()) {
    which.resize(batch());
    std::iota(which.begin(), which.end(), 0);
  }
  std::vector<Part> parts;
  for (int64_t sequence : which)
    parts.push_back({sequence, 0, queryTokens(sequence)});
  return run(splitTokens, parts, repeat);
}

Decoded Scene::decodeToken(int64_t splitTokens, int64_t sequence, int token) {
  return run(splitTokens, {{sequence, token, 1}}, false);
}

Decoded Scene::run(int64_t splitTokens, const std::vector<Part> &parts, bool repeat) {
  Device &device = subject.device;
  const Inputs inputs = inputsOf(parts);
  const int64_t outRow =
      subject.method.value.record.dim * elementBytes(subject.method.attention.rows) + kPad;
  const int64_t tokens = inputs.tokens, heads = spec.heads * group();
  const int64_t outToken = heads * outRow + kPad, lseToken = 4 * (2 * heads + 1);
  const Buffer out(device, size_t(tokens * outToken)), lse(device, size_t(tokens * lseToken));
  kvq_decode_args args = argumentsOf(inputs, splitTokens);
  args.out = out.data(), args.out_token_stride = outToken, args.out_head_stride = outRow;
  args.lse = at<float>(lse);
  args.lse_token_stride = lseToken, args.lse_head_stride = 8;
  const Buffer workspace = makeWorkspace(subject, args);
  for (int call = 0; call < (repeat ? 2 : 1); ++call) {
    out.fill(0xff), lse.fill(0xff);
    args.flags = call && device.target() == KVQ_TARGET_CUDA ? KVQ_DECODE_PLANNED : 0;
    require("decode", kvq_decode(subject.library.get(), &args));
    device.synchronize();
  }
  return collect(tokens, out, lse);
}

/// Records with gaps between them are copied one by one, others by pages: both ways of the runtime.
void Scene::movePages(bool throughHost) {
  Device &device = subject.device;
  auto allIds = [&] {
    std::vector<int32_t> ids;
    for (const std::vector<int32_t> &own : pages)
      ids.insert(ids.end(), own.begin(), own.end());
    return ids;
  };
  std::vector<int32_t> ids = allIds();
  kvq_move_args args = {};
  args.size = sizeof args;
  args.count = int64_t(ids.size());
  args.bytes = size_t(args.count * spec.heads * layout.bytes);
  std::vector<uint8_t> host(throughHost ? args.bytes : 0);
  const Buffer memory(device, throughHost ? 0 : args.bytes);
  args.data = throughHost ? static_cast<void *>(host.data()) : memory.data();
  args.place = {subject.layer, spec.firstHead, spec.heads};
  args.execution.stream = device.stream();
  args.pool = {pool->data(), pageStride, headStride, spec.page}, args.pages = ids.data();
  kvq_page_header header;
  require("export", kvq_export(subject.library.get(), &args, &header));
  device.synchronize();
  headStride = throughHost ? headStride + KVQ_RECORD_ALIGN : layout.stride;
  pageStride = spec.heads * headStride + 3 * KVQ_RECORD_ALIGN;
  placePages(++moves + spec.seed);
  pool.emplace(device, size_t(poolPages * pageStride));
  pool->fill(0xff);
  ids = allIds();
  args.pool = {pool->data(), pageStride, headStride, spec.page}, args.pages = ids.data();
  require("import", kvq_import(subject.library.get(), &args, &header));
  device.synchronize();
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
    sequence.length = sequence.tokens.quantized = spec.lengths[i];
    sequence.firstHead = spec.firstHead, sequence.heads = spec.heads;
    sequence.tokens.records = {{}, headStride, spec.page};
    for (size_t p = 0; p < pages[i].size(); ++p) {
      uint8_t *copy = &bytes[p * pageStride];
      subject.device.read(copy, pool->data() + pages[i][p] * pageStride, pageStride);
      sequence.tokens.records.pages.push_back(copy);
    }
    sequence.group = group(), sequence.qLength = queryTokens(i);
    sequence.window = spec.window, sequence.sinks = sinks;
    sequence.queries = queries[i];
    results.push_back(expectedAttention(subject, sequence));
  }
  return results;
}

} // namespace kvq

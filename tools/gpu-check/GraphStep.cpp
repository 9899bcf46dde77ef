// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/GraphStep.h"

#include "runtime/reference/Windows.h"
#include "tools/gpu-check/Rows.h"
#include "tools/gpu-check/TokenCheck.h"

#include <algorithm>
#include <numeric>

namespace kvq {
namespace {

int64_t rowBytes(const SideMethod &side) { return side.record.dim * elementBytes(side.rows); }

} // namespace

GraphStep::GraphStep(const Subject &subject, int64_t qLength, int64_t splitTokens)
    : subject(subject), method(subject.method), layout(subject.layout(kPage)),
      pageStride(layout.stride * method.kv_heads),
      pool(subject.device, size_t(kBatch * kColumns * pageStride)),
      keys(subject.device, size_t(kTokens * method.kv_heads * rowBytes(method.key))),
      values(subject.device, size_t(kTokens * method.kv_heads * rowBytes(method.value))),
      slots(subject.device, size_t(8 * kTokens)),
      queries(subject.device, size_t(kBatch * qLength * method.q_heads * queryRow())),
      out(subject.device, size_t(kBatch * qLength * method.q_heads * outRow())),
      lse(subject.device, size_t(4 * kBatch * qLength * method.q_heads)),
      table(subject.device, size_t(4 * kBatch * kColumns)),
      lengths(subject.device, size_t(4 * kBatch)) {
  setDecode(qLength, splitTokens);
}

void GraphStep::setDecode(int64_t qLength, int64_t splitTokens) {
  decode.size = sizeof decode;
  decode.q = queries.data(), decode.q_head_stride = queryRow();
  decode.q_token_stride = method.q_heads * queryRow();
  decode.out = out.data(), decode.out_head_stride = outRow();
  decode.out_token_stride = method.q_heads * outRow();
  decode.lse = at<float>(lse), decode.lse_head_stride = 4;
  decode.lse_token_stride = 4 * int64_t(method.q_heads);
  decode.q_length = qLength, decode.pool = {pool.data(), pageStride, layout.stride, kPage};
  decode.table = {at<int32_t>(table), nullptr, 4 * kColumns, kColumns};
  decode.lengths = at<int32_t>(lengths);
  decode.batch = kBatch, decode.max_length = kColumns * kPage;
  decode.split_tokens = splitTokens, decode.flags = KVQ_DECODE_PLANNED;
  decode.place.layer = subject.layer, decode.execution.stream = subject.device.stream();
}

kvq_token_args GraphStep::tokenArgs() const {
  kvq_token_args args = {};
  args.size = sizeof args;
  args.k = keys.data(), args.k_head_stride = rowBytes(method.key);
  args.k_token_stride = method.kv_heads * args.k_head_stride;
  args.v = values.data(), args.v_head_stride = rowBytes(method.value);
  args.v_token_stride = method.kv_heads * args.v_head_stride;
  args.slots = slots.data(), args.tokens = kTokens;
  args.place = decode.place, args.execution = decode.execution;
  return args;
}

void GraphStep::lengthen(int32_t more) {
  lengths.write(std::vector<int32_t>(kBatch, int32_t(kColumns * kPage) + more).data());
}

uint32_t GraphStep::faults() const {
  subject.device.synchronize();
  std::vector<uint32_t> words(workspace->bytes() / 4 + 1);
  workspace->read(words.data());
  return words[0];
}

std::vector<uint8_t> GraphStep::results() const {
  subject.device.synchronize();
  std::vector<uint8_t> bytes(pool.bytes() + out.bytes() + lse.bytes());
  pool.read(bytes.data());
  out.read(bytes.data() + pool.bytes());
  lse.read(bytes.data() + pool.bytes() + out.bytes());
  return bytes;
}

void GraphStep::fillRows(const Buffer &buffer, ElementType type, std::mt19937_64 &random) const {
  std::vector<float> rows(buffer.bytes() / size_t(elementBytes(type)));
  for (float &x : rows)
    x = float(int64_t(random() % 2001) - 1000) / 500;
  const EncodedRows encoded = encodeRows(type, rows, 1, 1, int64_t(rows.size()), 0);
  buffer.write(encoded.bytes.data());
}

void GraphStep::randomRows(std::mt19937_64 &random) {
  fillRows(keys, method.key.rows, random), fillRows(values, method.value.rows, random);
  fillRows(queries, method.attention.rows, random);
  pool.fill(0xff), out.fill(0x77), lse.fill(0x77);
}

std::vector<int32_t> GraphStep::randomTables(uint64_t seed, std::mt19937_64 &random, int64_t most,
                                             std::vector<int32_t> &ids) {
  ids.resize(kBatch * kColumns);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), random);
  std::vector<int32_t> counts(kBatch);
  const int64_t sequences = 1 + int64_t(random() % kBatch);
  for (int64_t i = 0; i < sequences; ++i)
    counts[size_t(i)] = int32_t(seed == 0 ? 1 : random() % uint64_t(most + 1));
  table.write(ids.data()), lengths.write(counts.data());
  return counts;
}

namespace {

/// append, plan and decode.
class RecordStep final : public GraphStep {
public:
  RecordStep(const Subject &subject, int64_t qLength, int64_t splitTokens)
      : GraphStep(subject, qLength, splitTokens), append(tokenArgs()) {
    append.pool = decode.pool;
    workspace.emplace(makeWorkspace(subject, decode));
  }

  void randomize(uint64_t seed) override {
    std::mt19937_64 random(seed);
    randomRows(random);
    std::vector<int32_t> ids;
    const std::vector<int32_t> counts = randomTables(seed, random, kColumns * kPage, ids);
    std::vector<int64_t> places(kTokens, -1);
    int64_t next = 0;
    for (int64_t i = 0; i < kBatch; ++i)
      for (int64_t t = 0; t < counts[size_t(i)]; ++t)
        places[size_t(next++)] = ids[size_t(i * kColumns + t / kPage)] * kPage + t % kPage;
    slots.write(places.data());
  }

  void launch() override {
    require("append", kvq_append(subject.library.get(), &append));
    require("plan", kvq_plan(subject.library.get(), &decode));
    require("decode", kvq_decode(subject.library.get(), &decode));
  }
  int launches() const override { return 4; }

private:
  kvq_token_args append;
};

/// All tokens go through the window: a step demotes what the format does not keep in it, and
/// attends records and window.
class WindowStep final : public GraphStep {
public:
  WindowStep(const Subject &subject, int64_t qLength, int64_t splitTokens)
      : GraphStep(subject, qLength, splitTokens), most(method.sink + method.recent + kMoved),
        sinkPages(pagesOf(method.sink)), recentPages(pagesOf(method.recent + kMoved)),
        headStride((windowBytes(method, kPage) + 127) / 128 * 128),
        window(subject.device,
               size_t(kBatch * (sinkPages + recentPages) * method.kv_heads * headStride)),
        sinkIds(subject.device, size_t(4 * kBatch * sinkPages)),
        recentIds(subject.device, size_t(4 * kBatch * recentPages)),
        from(subject.device, size_t(4 * kBatch)), to(subject.device, size_t(4 * kBatch)),
        append(tokenArgs()) {
    const kvq_pool windowPool = {window.data(), method.kv_heads * headStride, headStride, kPage};
    append.pool = decode.windows.pool = windowPool;
    if (method.sink)
      decode.windows.sink = {at<int32_t>(sinkIds), nullptr, 4 * sinkPages, sinkPages};
    decode.windows.recent = {at<int32_t>(recentIds), nullptr, 4 * recentPages, recentPages};
    decode.windows.quantized_lengths = at<int32_t>(to);
    commit.size = sizeof commit, commit.lengths = at<int32_t>(lengths);
    commit.from = at<int32_t>(from), commit.to = at<int32_t>(to);
    commit.batch = kBatch, commit.step = 8, commit.layer = subject.layer;
    commit.execution = decode.execution;
    demote.size = sizeof demote, demote.windows = decode.windows;
    demote.windows.quantized_lengths = commit.from, demote.to = commit.to;
    demote.pool = decode.pool, demote.table = decode.table;
    demote.batch = kBatch, demote.most = kMoved;
    demote.place = decode.place, demote.execution = decode.execution;
    workspace.emplace(makeWorkspace(subject, decode));
  }

  void randomize(uint64_t seed) override {
    std::mt19937_64 random(seed);
    randomRows(random);
    std::vector<int32_t> ids;
    const std::vector<int32_t> counts =
        randomTables(seed, random, std::min(most, kColumns * kPage), ids);
    std::vector<int32_t> pages(size_t(kBatch * (sinkPages + recentPages)));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random);
    sinkIds.write(pages.data()), recentIds.write(pages.data() + kBatch * sinkPages);
    std::vector<int64_t> places(kTokens, -1);
    int64_t next = 0;
    for (int64_t i = 0; i < kBatch; ++i)
      for (int64_t t = 0; t < counts[size_t(i)]; ++t) {
        const TokenPlace at = placeOf(method, 0, recentPages * kPage, t);
        const int64_t first =
            at.segment == Segment::sink ? i * sinkPages : kBatch * sinkPages + i * recentPages;
        places[size_t(next++)] = pages[size_t(first + at.row / kPage)] * kPage + at.row % kPage;
      }
    slots.write(places.data());
    from.write(std::vector<int32_t>(kBatch).data());
    window.fill(0xff), to.fill(0x77);
  }

  void launch() override {
    require("append_window", kvq_append_window(subject.library.get(), &append));
    require("commit", kvq_commit(subject.library.get(), &commit));
    require("demote", kvq_demote(subject.library.get(), &demote));
    require("plan", kvq_plan(subject.library.get(), &decode));
    require("decode", kvq_decode(subject.library.get(), &decode));
  }
  int launches() const override { return 6; }

private:
  static constexpr int64_t kMoved = 200; ///< tokens that a step demotes at most

  static int64_t pagesOf(int64_t tokens) { return (tokens + kPage - 1) / kPage; }

  int64_t most, sinkPages, recentPages, headStride;
  Buffer window, sinkIds, recentIds, from, to;
  kvq_token_args append;
  kvq_commit_args commit = {};
  kvq_demote_args demote = {};
};

} // namespace

std::unique_ptr<GraphStep> makeStep(const Subject &subject, int64_t qLength, int64_t splitTokens) {
  if (hasWindows(subject))
    return std::make_unique<WindowStep>(subject, qLength, splitTokens);
  return std::make_unique<RecordStep>(subject, qLength, splitTokens);
}

} // namespace kvq

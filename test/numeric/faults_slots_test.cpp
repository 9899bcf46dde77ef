// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fault: rows of high-precision windows are freed, moved or shared while a sequence still refers to
// them, so that a token is readable in no place or in two. An engine in small: sequences come,
// grow, fork and go over two pools of pages, through append_window, commit, demote and decode.
// Pages that nobody owns are NaN. Each decode is held against attention over the tokens of the
// sequence, each once, as the window or as the record keeps it.
#include "runtime/reference/Attention.h"
#include "runtime/reference/Tolerances.h"
#include "test/numeric/CompiledLibrary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace kvq::test {
namespace {

constexpr int kDim = 32, kSink = 4, kRecent = 24;
constexpr int64_t kPage = 16, kRingPages = 3, kChunk = 8, kRowBytes = 2 * kDim;
constexpr int64_t kWindowPage = 2 * kPage * kRowBytes; ///< bytes

MethodCase windowed() {
  MethodCase c = plainMethod(kDim, kDim, 2);
  c.method.kv_heads = 1, c.method.q_heads = 2;
  c.method.sink = kSink, c.method.recent = kRecent;
  c.method.attention.rows = ElementType::f32;
  return c;
}

/// One side of a token: as it came, and in f64 as a window and as a record keep it.
struct Row {
  std::vector<float> given;
  std::vector<double> window, record;
};
struct Token {
  Row k, v;
};

struct Sequence {
  std::vector<Token> tokens;
  int32_t quantized = 0;
  std::vector<int32_t> records, sink, ring;

  int32_t length() const { return int32_t(tokens.size()); }
};

/// Pages with owners.
class Pages {
public:
  explicit Pages(int32_t count) : owners(size_t(count)) {}

  int32_t take() {
    const auto free = std::find(owners.begin(), owners.end(), 0);
    EXPECT_NE(free, owners.end());
    *free = 1;
    return int32_t(free - owners.begin());
  }
  void share(int32_t page) { ++owners[size_t(page)]; }
  /// Whether nobody is left.
  bool release(int32_t page) { return --owners[size_t(page)] == 0; }
  int64_t owned() const { return std::accumulate(owners.begin(), owners.end(), INT64_C(0)); }

private:
  std::vector<int> owners;
};

class Engine {
public:
  Engine(int64_t step, uint64_t seed)
      : step(step), random(seed), library({windowed()}), records(library, shape()),
        windows(size_t(kWindows * kWindowPage + KVQ_RECORD_ALIGN), 0xff), recordPages(kRecords),
        windowPages(kWindows) {
    uint8_t *start = windows.data();
    start += -reinterpret_cast<uintptr_t>(start) % KVQ_RECORD_ALIGN;
    windowPool = {start, kWindowPage, kWindowPage, kPage};
  }

  int64_t below(int64_t count) { return int64_t(random() % uint64_t(count)); }

  /// One thing that an engine does.
  void act() {
    const int64_t choice = below(10), live = int64_t(sequences.size());
    if (live == 0 || (choice == 0 && live < kMost)) {
      sequences.emplace_back(admit());
      grow(sequences.back(), 1 + below(70));
      return;
    }
    const size_t chosen = size_t(below(live));
    if (choice == 1 || sequences[chosen].length() > 200)
      return drop(chosen);
    if (choice == 2 && live < kMost) {
      Sequence copy = fork(sequences[chosen]);
      sequences.push_back(std::move(copy));
      grow(sequences.back(), 1 + below(5));
    }
    grow(sequences[chosen], 1 + below(choice > 7 ? 20 : 3));
  }

  void decodeAll();
  /// Drops all sequences; nothing is owned then.
  void finish() {
    while (!sequences.empty())
      drop(0);
    EXPECT_EQ(recordPages.owned() + windowPages.owned(), 0);
  }

private:
  static constexpr int32_t kMost = 6, kRecords = 128, kWindows = 32;
  static PoolShape shape() {
    PoolShape shape;
    shape.pages = kRecords;
    return shape;
  }

  uint8_t *windowPage(int32_t page) const {
    return static_cast<uint8_t *>(windowPool.data) + page * kWindowPage;
  }
  Sequence admit() {
    Sequence sequence;
    sequence.sink = {windowPages.take()};
    for (int64_t i = 0; i < kRingPages; ++i)
      sequence.ring.push_back(windowPages.take());
    return sequence;
  }
  void drop(size_t index);
  Sequence fork(const Sequence &from);
  Token draw();
  void grow(Sequence &sequence, int64_t count);
  void appendWindow(const Sequence &sequence, int64_t first);
  void demote(Sequence &sequence);
  kvq_windows windowsOf(const std::vector<int32_t> &sink, const std::vector<int32_t> &ring,
                        const std::vector<int32_t> &quantized) const {
    kvq_windows out = {};
    out.pool = windowPool;
    out.sink = {sink.data(), nullptr, 4, 1};
    out.recent = {ring.data(), nullptr, 4 * kRingPages, kRingPages};
    out.quantized_lengths = quantized.data();
    return out;
  }
  void check(const Sequence &sequence, const float *q, const float *out, float lse);

  const int64_t step;
  std::mt19937_64 random;
  CompiledLibrary library;
  PagedCache records;
  std::vector<uint8_t> windows;
  kvq_pool windowPool = {};
  Pages recordPages, windowPages;
  std::vector<Sequence> sequences;
};

void Engine::drop(size_t index) {
  const Sequence &sequence = sequences[index];
  for (int32_t page : sequence.records)
    if (recordPages.release(page))
      std::memset(records.record(page, 0), 0xff, size_t(records.pool.page_stride));
  for (const std::vector<int32_t> *pages : {&sequence.sink, &sequence.ring})
    for (int32_t page : *pages)
      if (windowPages.release(page))
        std::memset(windowPage(page), 0xff, kWindowPage);
  sequences.erase(sequences.begin() + int64_t(index));
}

/// Full pages of records are shared; what may still be written is copied.
Sequence Engine::fork(const Sequence &from) {
  Sequence copy = admit();
  copy.tokens = from.tokens, copy.quantized = from.quantized;
  for (size_t i = 0; i < from.records.size(); ++i) {
    const bool full = int64_t(i + 1) * kPage <= from.quantized;
    if (full)
      recordPages.share(from.records[i]);
    copy.records.push_back(full ? from.records[i] : recordPages.take());
    if (!full)
      std::memcpy(records.record(copy.records[i], 0), records.record(from.records[i], 0),
                  size_t(records.pool.page_stride));
  }
  std::memcpy(windowPage(copy.sink[0]), windowPage(from.sink[0]), kWindowPage);
  for (size_t i = 0; i < from.ring.size(); ++i)
    std::memcpy(windowPage(copy.ring[i]), windowPage(from.ring[i]), kWindowPage);
  return copy;
}

Token Engine::draw() {
  const CacheMethod &m = records.method();
  Token token;
  std::normal_distribution<float> normal;
  for (Row *row : {&token.k, &token.v}) {
    std::vector<float> drawn(kDim);
    std::generate(drawn.begin(), drawn.end(), [&] { return normal(random); });
    row->given = Rows(ElementType::bf16, drawn).values();
    row->window.assign(row->given.begin(), row->given.end());
  }
  std::vector<uint8_t> record(size_t(records.layout.bytes));
  const Constants none(m, nullptr);
  appendToken(m, records.layout, none, {}, record.data(), 0, token.k.given.data(),
              token.v.given.data());
  token.k.record = dequantize(m, records.layout, none, {}, record.data(), 'k', 0);
  token.v.record = dequantize(m, records.layout, none, {}, record.data(), 'v', 0);
  return token;
}

void Engine::grow(Sequence &sequence, int64_t count) {
  for (int64_t left = count; left > 0; left -= kChunk) {
    const int64_t first = sequence.length();
    for (int64_t i = 0; i < std::min(left, kChunk); ++i)
      sequence.tokens.push_back(draw());
    appendWindow(sequence, first);
    demote(sequence);
  }
}

void Engine::appendWindow(const Sequence &sequence, int64_t first) {
  std::vector<float> k, v;
  std::vector<int64_t> slots;
  for (int64_t t = first; t < sequence.length(); ++t) {
    const Token &token = sequence.tokens[size_t(t)];
    k.insert(k.end(), token.k.given.begin(), token.k.given.end());
    v.insert(v.end(), token.v.given.begin(), token.v.given.end());
    const int64_t row = t < kSink ? t : (t - kSink) % (kRingPages * kPage);
    const int32_t page = (t < kSink ? sequence.sink : sequence.ring)[size_t(row / kPage)];
    slots.push_back(page * kPage + row % kPage);
  }
  Rows keys(ElementType::bf16, k), values(ElementType::bf16, v);
  kvq_token_args args = {};
  args.size = sizeof args;
  args.k = keys.bytes.data(), args.v = values.bytes.data();
  args.k_token_stride = args.k_head_stride = args.v_token_stride = args.v_head_stride = kRowBytes;
  args.slots = slots.data(), args.tokens = int64_t(slots.size());
  args.pool = windowPool;
  ASSERT_EQ(kvq_append_window(library.get(), &args), KVQ_OK) << kvq_last_error();
}

void Engine::demote(Sequence &sequence) {
  const std::vector<int32_t> length = {sequence.length()}, from = {sequence.quantized};
  int32_t to = -1;
  kvq_commit_args commit = {};
  commit.size = sizeof commit;
  commit.lengths = length.data(), commit.from = from.data(), commit.to = &to;
  commit.batch = 1, commit.step = step;
  ASSERT_EQ(kvq_commit(library.get(), &commit), KVQ_OK) << kvq_last_error();
  const int64_t leave = std::max(0, sequence.length() - kSink - kRecent) / step * step;
  ASSERT_EQ(to, std::max<int64_t>(sequence.quantized, leave));
  while (int64_t(sequence.records.size()) * kPage < to)
    sequence.records.push_back(recordPages.take());
  kvq_demote_args args = {};
  args.size = sizeof args;
  args.windows = windowsOf(sequence.sink, sequence.ring, from);
  args.to = &to;
  args.pool = records.pool;
  args.table = {sequence.records.data(), nullptr, 0, int64_t(sequence.records.size())};
  args.batch = 1, args.most = kRingPages * kPage;
  ASSERT_EQ(kvq_demote(library.get(), &args), KVQ_OK) << kvq_last_error();
  sequence.quantized = to;
}

void Engine::decodeAll() {
  const size_t batch = sequences.size(), columns = 16;
  std::vector<int32_t> table(batch * columns, INT32_MAX), sink, ring, quantized;
  Request request;
  for (size_t i = 0; i < batch; ++i) {
    const Sequence &sequence = sequences[i];
    ASSERT_LE(sequence.records.size(), columns);
    std::copy(sequence.records.begin(), sequence.records.end(), &table[i * columns]);
    sink.push_back(sequence.sink[0]);
    ring.insert(ring.end(), sequence.ring.begin(), sequence.ring.end());
    quantized.push_back(sequence.quantized);
    request.lengths.push_back(sequence.length()), request.pages.emplace_back();
  }
  request.split = 64, request.seed = random();
  DecodeCall call(records, request);
  call.args.table = {table.data(), nullptr, int64_t(4 * columns), int64_t(columns)};
  call.args.windows = windowsOf(sink, ring, quantized);
  call.run();
  for (size_t i = 0; i < batch; ++i)
    check(sequences[i], &call.q[i * 2 * kDim], call.row(int64_t(2 * i)), call.lse[2 * i]);
}

void Engine::check(const Sequence &sequence, const float *q, const float *out, float lse) {
  std::vector<double> keys, values;
  for (int32_t t = 0; t < sequence.length(); ++t) {
    const bool window = t < kSink || t >= kSink + sequence.quantized;
    const Token &token = sequence.tokens[size_t(t)];
    const std::vector<double> &k = window ? token.k.window : token.k.record;
    const std::vector<double> &v = window ? token.v.window : token.v.record;
    keys.insert(keys.end(), k.begin(), k.end());
    values.insert(values.end(), v.begin(), v.end());
  }
  AttentionRule rule;
  rule.scale = records.method().attention.scale;
  const AttentionResult expected = exactAttention({2, 1, kDim, kDim, 1}, rule, sequence.length(),
                                                  {q, q + 2 * kDim}, keys, values);
  const std::vector<double> got(out, out + 2 * kDim);
  ASSERT_LE(relativeError(got, expected.out), kAttentionError)
      << "length " << sequence.length() << " quantized " << sequence.quantized;
  ASSERT_LE(std::fabs(lse - expected.lse[0]),
            kLseError * std::max(1.0, std::fabs(expected.lse[0])));
}

TEST(SlotFaults, EveryTokenIsReadableInExactlyOnePlace) {
  for (int64_t step : {1, 8, 16}) {
    SCOPED_TRACE("steps of " + std::to_string(step));
    Engine engine(step, uint64_t(step));
    for (int i = 0; i < 1000 && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE("action " + std::to_string(i));
      engine.act();
      if (i % 2)
        engine.decodeAll();
    }
    engine.finish();
  }
}

} // namespace
} // namespace kvq::test

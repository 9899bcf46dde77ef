// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// High-precision windows: filled, demoted step by step and attended, against append and against the
// oracle's attention over the same bytes.
#include "tools/gpu-check/DecodeCheck.h"
#include "tools/gpu-check/TokenCheck.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace kvq {
namespace {

constexpr int64_t kPage = 64, kWindowPage = 16;
constexpr int64_t kCount = 430; ///< committed tokens
constexpr int64_t kPiece = 5;   ///< of a call of append_window
constexpr int64_t kDrafts = 8;  ///< tokens behind them that are not committed
constexpr int64_t kPages = 7;   ///< of records
constexpr int kMostQueries = 8;

/// Query tokens at the end of a sequence of `length` tokens.
struct Call {
  int64_t length;
  int queries;
  int64_t window, split;
};

/// One token, drafts, and a part of the drafts: what lies behind it in the ring was rejected.
constexpr Call kCalls[] = {{kCount, 1, 0, 0},
                           {kCount, 3, 70, 64},
                           {kCount + kDrafts, kMostQueries, 0, 64},
                           {kCount + kDrafts, kMostQueries, 100, 0},
                           {kCount + 3, 4, 5, 0},
                           {kCount + 1, 2, 0, 64}};

std::vector<int32_t> backwards(int64_t count, int64_t last) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.rbegin(), ids.rend(), int32_t(last - count + 1));
  return ids;
}

/// One sequence with windows, filled in pieces, its tokens demoted as they leave the window.
class WindowScene {
public:
  WindowScene(const Subject &subject, const RowKind &kind, int64_t step)
      : subject(subject), method(subject.method), step(step),
        tokens(subject, kind, kCount + kDrafts, kMostQueries, 11), layout(subject.layout(kPage)),
        windowHead((windowBytes(method, kWindowPage) + 127) / 128 * 128),
        windowStride(windowHead * method.kv_heads), recordStride(layout.stride * method.kv_heads),
        sinkPages((method.sink + kWindowPage - 1) / kWindowPage),
        recentPages((method.recent + step + kDrafts + kWindowPage - 1) / kWindowPage),
        window(subject.device, size_t((sinkPages + recentPages) * windowStride)),
        pool(subject.device, size_t(kPages * recordStride)),
        sink(backwards(sinkPages, sinkPages - 1)),
        recent(backwards(recentPages, sinkPages + recentPages - 1)),
        records(backwards(kPages, kPages - 1)), sinkIds(upload(subject.device, sink)),
        recentIds(upload(subject.device, recent)), recordIds(upload(subject.device, records)) {
    window.fill(0xff), pool.fill(0xff);
  }

  /// Commits all but the drafts.
  void fill() {
    for (int64_t first = 0; first < kCount; first += kPiece) {
      append(first, kPiece);
      demote(first + kPiece);
    }
    append(kCount, kDrafts);
  }

  /// Whether the records hold what append makes of the same tokens, and nothing else was written.
  std::string compareRecords() const;
  Decoded decode(const Call &call) const;
  AttentionResult expected(const Call &call) const;

private:
  int64_t windowSlot(int64_t token) const {
    const TokenPlace at = placeOf(method, 0, recentPages * kWindowPage, token);
    const std::vector<int32_t> &ids = at.segment == Segment::sink ? sink : recent;
    return ids[size_t(at.row / kWindowPage)] * kWindowPage + at.row % kWindowPage;
  }
  kvq_windows windows(const Buffer &from) const {
    kvq_windows out = {};
    out.pool = {window.data(), windowStride, windowHead, kWindowPage};
    if (method.sink)
      out.sink = {at<int32_t>(sinkIds), nullptr, 4 * sinkPages, sinkPages};
    out.recent = {at<int32_t>(recentIds), nullptr, 4 * recentPages, recentPages};
    out.quantized_lengths = at<int32_t>(from);
    return out;
  }
  void append(int64_t first, int64_t count);
  void demote(int64_t length);
  kvq_decode_args argumentsOf(const Call &call) const;

  const Subject &subject;
  const CacheMethod &method;
  int64_t step;
  TokenRows tokens;
  RecordLayout layout;
  int64_t windowHead, windowStride, recordStride, sinkPages, recentPages;
  Buffer window, pool;
  std::vector<int32_t> sink, recent, records;
  Buffer sinkIds, recentIds, recordIds;
  int32_t quantized = 0;
};

void WindowScene::append(int64_t first, int64_t count) {
  std::vector<int32_t> slots;
  for (int64_t token = first; token < first + count; ++token)
    slots.push_back(int32_t(windowSlot(token)));
  const Buffer places = upload(subject.device, slots);
  kvq_token_args args = tokens.arguments(subject, first, places, count);
  args.pool = {window.data(), windowStride, windowHead, kWindowPage};
  require("append_window", kvq_append_window(subject.library.get(), &args));
  subject.device.synchronize();
}

void WindowScene::demote(int64_t length) {
  Device &device = subject.device;
  const Buffer lengths = upload(device, std::vector<int32_t>{int32_t(length)});
  const Buffer from = upload(device, std::vector<int32_t>{quantized});
  const Buffer to = upload(device, std::vector<int32_t>{-1});
  kvq_commit_args commit = {};
  commit.size = sizeof commit;
  commit.lengths = at<int32_t>(lengths), commit.from = at<int32_t>(from),
  commit.to = at<int32_t>(to);
  commit.batch = 1, commit.step = step, commit.layer = subject.layer;
  commit.execution.stream = device.stream();
  require("commit", kvq_commit(subject.library.get(), &commit));
  kvq_demote_args args = {};
  args.size = sizeof args;
  args.windows = windows(from), args.to = at<int32_t>(to);
  args.pool = {pool.data(), recordStride, layout.stride, kPage};
  args.table = {at<int32_t>(recordIds), nullptr, 0, kPages};
  args.batch = 1, args.most = step + kPiece, args.place.layer = subject.layer;
  args.execution.stream = device.stream();
  require("demote", kvq_demote(subject.library.get(), &args));
  device.synchronize();
  to.read(&quantized);
}

std::string WindowScene::compareRecords() const {
  const int64_t leave = std::max<int64_t>(0, kCount - method.sink - method.recent);
  if (quantized != leave / step * step)
    return "expected " + std::to_string(leave / step * step) + " tokens in records, got " +
           std::to_string(quantized);
  std::vector<int32_t> slots;
  for (int64_t i = 0; i < quantized; ++i)
    slots.push_back(int32_t(records[size_t(i / kPage)] * kPage + i % kPage));
  const Buffer direct(subject.device, pool.bytes()), places = upload(subject.device, slots);
  direct.fill(0xff);
  kvq_token_args args = tokens.arguments(subject, method.sink, places, quantized);
  args.pool = {direct.data(), recordStride, layout.stride, kPage};
  require("append", kvq_append(subject.library.get(), &args));
  subject.device.synchronize();
  std::vector<uint8_t> got(pool.bytes()), expected(pool.bytes());
  pool.read(got.data()), direct.read(expected.data());
  const auto differs = std::mismatch(got.begin(), got.end(), expected.begin()).first;
  return differs == got.end() ? ""
                              : "demoted records differ from appended ones at byte " +
                                    std::to_string(differs - got.begin());
}

/// All but what a call has memory of its own for.
kvq_decode_args WindowScene::argumentsOf(const Call &call) const {
  kvq_decode_args args = {};
  args.size = sizeof args;
  const int64_t size = elementBytes(method.attention.rows);
  args.q_head_stride = method.key.record.dim * size;
  args.q_token_stride = method.q_heads * args.q_head_stride;
  args.out_head_stride = method.value.record.dim * size;
  args.out_token_stride = method.q_heads * args.out_head_stride;
  args.lse_head_stride = 4, args.lse_token_stride = 4 * method.q_heads;
  args.q_length = call.queries, args.window = call.window, args.split_tokens = call.split;
  args.pool = {pool.data(), recordStride, layout.stride, kPage};
  args.table = {at<int32_t>(recordIds), nullptr, 0, kPages};
  args.batch = 1, args.max_length = kCount + kDrafts;
  args.place.layer = subject.layer, args.execution.stream = subject.device.stream();
  return args;
}

Decoded WindowScene::decode(const Call &call) const {
  Device &device = subject.device;
  const int64_t rows = call.queries * int64_t(method.q_heads);
  const Buffer queries = upload(
      device,
      encodeRows(method.attention.rows, tokens.queries, rows, 1, method.key.record.dim, 0).bytes);
  const Buffer lengths = upload(device, std::vector<int32_t>{int32_t(call.length)});
  const Buffer from = upload(device, std::vector<int32_t>{quantized});
  kvq_decode_args args = argumentsOf(call);
  const Buffer out(device, size_t(rows * args.out_head_stride)), lse(device, size_t(4 * rows));
  out.fill(0xff), lse.fill(0xff);
  args.q = queries.data(), args.out = out.data(), args.lse = at<float>(lse);
  args.lengths = at<int32_t>(lengths), args.windows = windows(from);
  const Buffer workspace = makeWorkspace(subject, args);
  require("decode", kvq_decode(subject.library.get(), &args));
  device.synchronize();
  Decoded got;
  got.lse.resize(size_t(rows)), lse.read(got.lse.data());
  std::vector<uint8_t> bytes(out.bytes());
  out.read(bytes.data());
  const size_t size = size_t(elementBytes(method.attention.rows));
  for (size_t i = 0; i < bytes.size(); i += size) {
    uint32_t bits = 0;
    std::memcpy(&bits, &bytes[i], size);
    got.out.push_back(bits);
  }
  return got;
}

AttentionResult WindowScene::expected(const Call &call) const {
  std::vector<uint8_t> windowCopy(window.bytes()), recordCopy(pool.bytes());
  window.read(windowCopy.data()), pool.read(recordCopy.data());
  auto pagesOf = [](const std::vector<int32_t> &ids, const std::vector<uint8_t> &bytes,
                    int64_t pageStride, int64_t headStride, int64_t pageTokens) {
    CachedPages out{{}, headStride, pageTokens};
    for (int32_t id : ids)
      out.pages.push_back(&bytes[size_t(id * pageStride)]);
    return out;
  };
  CachedSequence sequence;
  sequence.tokens.sink = pagesOf(sink, windowCopy, windowStride, windowHead, kWindowPage);
  sequence.tokens.recent = pagesOf(recent, windowCopy, windowStride, windowHead, kWindowPage);
  sequence.tokens.records = pagesOf(records, recordCopy, recordStride, layout.stride, kPage);
  sequence.tokens.quantized = quantized;
  sequence.length = call.length, sequence.heads = method.kv_heads;
  sequence.group = subject.group(), sequence.qLength = call.queries;
  sequence.window = call.window, sequence.queries = tokens.queries;
  return expectedAttention(subject, sequence);
}

} // namespace

CheckResult checkWindow(const Subject &subject, const RowKind &kind, int64_t step) {
  CheckResult result;
  result.name = "windows, step " + std::to_string(step) + ", " + kind.name();
  WindowScene scene(subject, kind, step);
  scene.fill();
  result.failure = scene.compareRecords();
  const DecodeBounds bounds =
      decodeBounds(subject.device.target(), subject.method.attention.rows, kind);
  for (const Call &call : kCalls) {
    if (!result.failure.empty())
      return result;
    compareDecoded(subject, bounds, scene.decode(call), {scene.expected(call)}, result);
    if (!result.failure.empty())
      result.failure = std::to_string(call.queries) + " query tokens at length " +
                       std::to_string(call.length) + ", window " + std::to_string(call.window) +
                       ", split " + std::to_string(call.split) + ": " + result.failure;
  }
  return result;
}

} // namespace kvq

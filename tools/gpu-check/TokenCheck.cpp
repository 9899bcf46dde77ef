// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The token kernels beside append: dequantize against the oracle; windows filled, demoted step by
// step and attended, against append and against attention in double over the stored rows.
#include "tools/gpu-check/DecodeCheck.h"

#include "runtime/reference/Append.h"
#include "runtime/reference/Rotation.h"
#include "runtime/reference/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

namespace kvq {
namespace {

constexpr int64_t kPage = 64, kWindowPage = 16;
constexpr double kRowError = 2e-6; ///< of a row in f32, relative to its largest element

/// A sequence of rows on the device, for all KV heads of the model.
struct Tokens {
  Tokens(const Subject &subject, const RowKind &kind, int64_t count, uint64_t seed) : count(count) {
    const CacheMethod &method = subject.method;
    RowShape shape;
    shape.tokens = count, shape.heads = method.kv_heads, shape.group = subject.group();
    shape.keyDim = method.key.record.dim, shape.valueDim = method.value.record.dim;
    shape.scale = method.attention.scale;
    rows = makeSequence(kind, shape, seed);
    roundRows(method.key.rows, rows.keys), roundRows(method.value.rows, rows.values);
    roundRows(method.attention.rows, rows.queries);
    k = encodeRows(method.key.rows, rows.keys, count, shape.heads, shape.keyDim, 0);
    v = encodeRows(method.value.rows, rows.values, count, shape.heads, shape.valueDim, 0);
    keys.emplace(subject.device, k.bytes.size()), keys->write(k.bytes.data());
    values.emplace(subject.device, v.bytes.size()), values->write(v.bytes.data());
  }

  /// Arguments of a call over tokens [first, first + slots) with these slots.
  kvq_token_args arguments(const Subject &subject, int64_t first, const Buffer &slots,
                           int64_t tokens) const {
    kvq_token_args args = {};
    args.size = sizeof args;
    args.k = keys->data() + first * k.outerStride, args.v = values->data() + first * v.outerStride;
    args.k_token_stride = k.outerStride, args.k_head_stride = k.innerStride;
    args.v_token_stride = v.outerStride, args.v_head_stride = v.innerStride;
    args.slots = slots.data(), args.tokens = tokens, args.flags = KVQ_SLOTS_32;
    args.place.layer = subject.layer;
    args.execution.stream = subject.device.stream();
    return args;
  }

  int64_t count;
  SequenceRows rows;
  EncodedRows k, v;
  std::optional<Buffer> keys, values;
};

template <typename T> Buffer upload(Device &device, const std::vector<T> &values) {
  Buffer buffer(device, sizeof(T) * values.size());
  buffer.write(values.data());
  return buffer;
}

template <typename T> T *at(const Buffer &buffer) { return reinterpret_cast<T *>(buffer.data()); }

/// Undoes the steps of a side, as the oracle's dequantize does.
void toModel(const Subject &subject, const SideMethod &side, RowPlace place,
             std::vector<double> &row) {
  for (auto step = side.steps.rbegin(); step != side.steps.rend(); ++step) {
    if (step->kind == Step::Kind::rotate)
      unrotateRow(step->factors, subject.constants, place, row);
    if (step->kind == Step::Kind::center) {
      const float *mean = subject.constants.slice(step->constant, place.layer, place.head);
      for (size_t i = 0; i < row.size(); ++i)
        row[i] += double(mean[i]);
    }
  }
}

std::vector<int32_t> countTo(int64_t count) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(int32_t(i));
  return all;
}

/// Dequantizes what append wrote, all but the reserved slot, and compares it with the oracle.
CheckResult checkDequantize(const Subject &subject, const RowKind &kind, bool stored) {
  CheckResult result;
  result.name = std::string("dequantize ") + (stored ? "stored " : "model ") + kind.name();
  constexpr int64_t count = 100, reserved = 3;
  const CacheMethod &method = subject.method;
  const RecordLayout layout = subject.layout(kPage);
  const Tokens tokens(subject, kind, count, 7);
  const int64_t headStride = layout.stride, pageStride = headStride * method.kv_heads;
  const Buffer pool(subject.device, size_t(2 * pageStride));
  pool.fill(0xff);
  const Buffer slots = upload(subject.device, countTo(count));
  kvq_token_args args = tokens.arguments(subject, 0, slots, count);
  args.pool = {pool.data(), pageStride, headStride, kPage};
  require("append", kvq_append(subject.library.get(), &args));
  const int64_t dims[] = {method.key.record.dim, method.value.record.dim};
  const Buffer k(subject.device, size_t(4 * count * method.kv_heads * dims[0]));
  const Buffer v(subject.device, size_t(4 * count * method.kv_heads * dims[1]));
  k.fill(0xff), v.fill(0xff);
  args.k = k.data(), args.k_head_stride = 4 * dims[0];
  args.v = v.data(), args.v_head_stride = 4 * dims[1];
  args.k_token_stride = method.kv_heads * args.k_head_stride;
  args.v_token_stride = method.kv_heads * args.v_head_stride;
  args.flags |= KVQ_ROWS_F32 | KVQ_RESERVED_SLOT | (stored ? KVQ_STORED_BASIS : 0u);
  args.reserved_slot = reserved;
  require("dequantize", kvq_dequantize(subject.library.get(), &args));
  subject.device.synchronize();
  std::vector<uint8_t> bytes(pool.bytes());
  pool.read(bytes.data());
  for (int side = 0; side < 2; ++side) {
    std::vector<float> got((side ? v : k).bytes() / 4);
    (side ? v : k).read(got.data());
    for (int64_t i = 0; i < count * method.kv_heads && result.failure.empty(); ++i) {
      const int64_t token = i / method.kv_heads, head = i % method.kv_heads;
      const float *row = &got[size_t(i * dims[side])];
      if (token == reserved) {
        if (!std::isnan(row[0]))
          result.failure = "the token of the reserved slot was written";
        continue;
      }
      const std::vector<double> expected =
          dequantize(method, layout, subject.constants, {subject.layer, head},
                     &bytes[size_t(token / kPage * pageStride + head * headStride)],
                     side ? 'v' : 'k', token % kPage, stored ? RowBasis::rotated : RowBasis::model);
      double most = 0, worst = 0;
      for (int64_t d = 0; d < dims[side]; ++d)
        most = std::max(most, std::fabs(expected[size_t(d)]));
      for (int64_t d = 0; d < dims[side]; ++d)
        worst = std::max(worst, std::fabs(double(row[d]) - expected[size_t(d)]));
      if (!(worst <= kRowError * std::max(most, 1e-30)))
        result.failure = std::string(side ? "V" : "K") + " of token " + std::to_string(token) +
                         ", head " + std::to_string(head) + ": differs by " +
                         std::to_string(worst) + ", largest " + std::to_string(most);
    }
  }
  return result;
}

/// One sequence with windows, filled in pieces, its tokens demoted as they leave the window.
class WindowScene {
public:
  WindowScene(const Subject &subject, const RowKind &kind, int64_t step)
      : subject(subject), method(subject.method), step(step), tokens(subject, kind, kCount, 11),
        layout(subject.layout(kPage)), element(elementBytes(method.key.storedRows())),
        rowBytes(element * (method.key.record.dim + method.value.record.dim)),
        windowHead((kWindowPage * rowBytes + 127) / 128 * 128),
        windowStride(windowHead * method.kv_heads), recordStride(layout.stride * method.kv_heads),
        sinkPages((method.sink + kWindowPage - 1) / kWindowPage),
        recentPages((method.recent + step + kPiece + kWindowPage - 1) / kWindowPage),
        window(subject.device, size_t((sinkPages + recentPages) * windowStride)),
        pool(subject.device, size_t(kPages * recordStride)) {
    window.fill(0xff), pool.fill(0xff);
    for (int64_t i = 0; i < recentPages; ++i)
      recent.push_back(int32_t(sinkPages + recentPages - 1 - i));
    for (int64_t i = 0; i < kPages; ++i)
      records.push_back(int32_t(kPages - 1 - i));
  }

  void fill() {
    for (int64_t first = 0; first < kCount; first += kPiece) {
      const int64_t count = std::min(kPiece, kCount - first);
      append(first, count);
      length = first + count;
      demote();
    }
  }

  /// Whether the records hold what append makes of the same tokens, and nothing else was written.
  std::string compareRecords() const;
  void decode(CheckResult &result);

private:
  static constexpr int64_t kCount = 430, kPiece = 5, kPages = 7;

  int64_t capacity() const { return recentPages * kWindowPage; }
  int64_t windowSlot(int64_t token) const {
    if (token < method.sink)
      return token;
    const int64_t row = (token - method.sink) % capacity();
    return recent[size_t(row / kWindowPage)] * kWindowPage + row % kWindowPage;
  }
  kvq_windows windows(const Buffer &sinkIds, const Buffer &recentIds, const Buffer &from) const {
    kvq_windows out = {};
    out.pool = {window.data(), windowStride, windowHead, kWindowPage};
    if (method.sink)
      out.sink = {at<int32_t>(sinkIds), nullptr, 4 * sinkPages, sinkPages};
    out.recent = {at<int32_t>(recentIds), nullptr, 4 * recentPages, recentPages};
    out.quantized_lengths = at<int32_t>(from);
    return out;
  }
  void append(int64_t first, int64_t count);
  void demote();
  std::vector<double> keyOrValue(const std::vector<uint8_t> &windowBytes,
                                 const std::vector<uint8_t> &recordBytes, int64_t token,
                                 int64_t head, bool key) const;

  const Subject &subject;
  const CacheMethod &method;
  int64_t step;
  Tokens tokens;
  RecordLayout layout;
  int64_t element, rowBytes, windowHead, windowStride, recordStride, sinkPages, recentPages;
  Buffer window, pool;
  std::vector<int32_t> recent, records;
  int64_t length = 0;
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

void WindowScene::demote() {
  Device &device = subject.device;
  const Buffer lengths = upload(device, std::vector<int32_t>{int32_t(length)});
  const Buffer from = upload(device, std::vector<int32_t>{quantized});
  const Buffer to = upload(device, std::vector<int32_t>{-1});
  const Buffer sinkIds = upload(device, countTo(sinkPages + 1)), recentIds = upload(device, recent);
  const Buffer ids = upload(device, records);
  kvq_commit_args commit = {};
  commit.size = sizeof commit;
  commit.lengths = at<int32_t>(lengths), commit.from = at<int32_t>(from),
  commit.to = at<int32_t>(to);
  commit.batch = 1, commit.step = step, commit.layer = subject.layer;
  commit.execution.stream = device.stream();
  require("commit", kvq_commit(subject.library.get(), &commit));
  kvq_demote_args args = {};
  args.size = sizeof args;
  args.windows = windows(sinkIds, recentIds, from), args.to = at<int32_t>(to);
  args.pool = {pool.data(), recordStride, layout.stride, kPage};
  args.table = {at<int32_t>(ids), nullptr, 0, kPages};
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

/// A row in the model's basis, from wherever its token lies.
std::vector<double> WindowScene::keyOrValue(const std::vector<uint8_t> &windowBytes,
                                            const std::vector<uint8_t> &recordBytes, int64_t token,
                                            int64_t head, bool key) const {
  const SideMethod &side = key ? method.key : method.value;
  const RowPlace place = {subject.layer, head};
  const int64_t record = token - method.sink;
  if (record >= 0 && record < quantized)
    return dequantize(
        method, layout, subject.constants, place,
        &recordBytes[size_t(records[size_t(record / kPage)] * recordStride + head * layout.stride)],
        key ? 'k' : 'v', record % kPage);
  const int64_t slot = windowSlot(token), dim = side.record.dim;
  int64_t offset = slot / kWindowPage * windowStride + head * windowHead;
  offset += (key ? 0 : kWindowPage * element * method.key.record.dim) +
            slot % kWindowPage * element * dim;
  std::vector<double> row;
  for (int64_t d = 0; d < dim; ++d) {
    uint32_t bits = 0;
    std::memcpy(&bits, &windowBytes[size_t(offset + d * element)], size_t(element));
    row.push_back(double(decodeElement(side.storedRows(), bits)));
  }
  toModel(subject, side, place, row);
  return row;
}

/// One query token for each KV head and query head, over sink, records and recent window.
void WindowScene::decode(CheckResult &result) {
  Device &device = subject.device;
  const int64_t heads = method.q_heads, keyDim = method.key.record.dim,
                valueDim = method.value.record.dim;
  const EncodedRows q = encodeRows(method.attention.rows, tokens.rows.queries, 1, heads, keyDim, 0);
  const Buffer queries = upload(device, q.bytes);
  const int64_t size = elementBytes(method.attention.rows);
  const Buffer out(device, size_t(heads * valueDim * size)), lse(device, size_t(4 * heads));
  const Buffer lengths = upload(device, std::vector<int32_t>{int32_t(kCount)});
  const Buffer from = upload(device, std::vector<int32_t>{quantized});
  const Buffer sinkIds = upload(device, countTo(sinkPages + 1)), recentIds = upload(device, recent);
  const Buffer ids = upload(device, records);
  kvq_decode_args args = {};
  args.size = sizeof args;
  args.q = queries.data(), args.q_head_stride = q.innerStride, args.q_token_stride = q.outerStride;
  args.out = out.data(), args.out_head_stride = valueDim * size;
  args.out_token_stride = heads * args.out_head_stride;
  args.lse = at<float>(lse), args.lse_head_stride = 4, args.lse_token_stride = 4 * heads;
  args.pool = {pool.data(), recordStride, layout.stride, kPage};
  args.table = {at<int32_t>(ids), nullptr, 0, kPages};
  args.lengths = at<int32_t>(lengths), args.batch = 1, args.max_length = kCount;
  args.windows = windows(sinkIds, recentIds, from);
  args.place.layer = subject.layer, args.execution.stream = device.stream();
  require("workspace size",
          kvq_workspace_size(subject.library.get(), &args, &args.workspace_bytes));
  const Buffer workspace(device, args.workspace_bytes);
  args.workspace = workspace.data();
  require("workspace", kvq_workspace_init(subject.library.get(), args.workspace,
                                          args.workspace_bytes, &args.execution));
  require("decode", kvq_decode(subject.library.get(), &args));
  device.synchronize();
  Decoded got;
  std::vector<uint8_t> outBytes(out.bytes()), windowBytes(window.bytes()), poolBytes(pool.bytes());
  out.read(outBytes.data()), window.read(windowBytes.data()), pool.read(poolBytes.data());
  got.lse.resize(size_t(heads)), lse.read(got.lse.data());
  for (int64_t i = 0; i < heads * valueDim; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &outBytes[size_t(i * size)], size_t(size));
    got.out.push_back(bits);
  }
  AttentionRule rule;
  rule.scale = method.attention.scale, rule.softcap = method.attention.softcap;
  rule.window = method.attention.window;
  AttentionResult expected;
  const int64_t group = subject.group();
  for (int64_t head = 0; head < method.kv_heads; ++head) {
    std::vector<double> keys, values;
    for (int64_t token = 0; token < kCount; ++token)
      for (bool key : {true, false}) {
        const std::vector<double> row = keyOrValue(windowBytes, poolBytes, token, head, key);
        (key ? keys : values).insert((key ? keys : values).end(), row.begin(), row.end());
      }
    const auto begin = tokens.rows.queries.begin() + head * group * keyDim;
    const AttentionResult one =
        exactAttention({int(group), 1, int(keyDim), int(valueDim)}, rule, kCount,
                       std::vector<double>(begin, begin + group * keyDim), keys, values);
    expected.out.insert(expected.out.end(), one.out.begin(), one.out.end());
    expected.lse.insert(expected.lse.end(), one.lse.begin(), one.lse.end());
  }
  const DecodeBounds bounds = decodeBounds(device.target(), method.attention.rows, {});
  compareDecoded(subject, bounds, got, {expected}, result);
}

CheckResult checkWindow(const Subject &subject, const RowKind &kind, int64_t step) {
  CheckResult result;
  result.name = "windows, step " + std::to_string(step) + ", " + kind.name();
  WindowScene scene(subject, kind, step);
  scene.fill();
  result.failure = scene.compareRecords();
  if (result.failure.empty())
    scene.decode(result);
  return result;
}

} // namespace

std::vector<CheckResult> checkTokens(const Subject &subject, const RowKind &kind) {
  std::vector<CheckResult> results = {checkDequantize(subject, kind, /*stored=*/true),
                                      checkDequantize(subject, kind, /*stored=*/false)};
  const CacheMethod &method = subject.method;
  const bool inModel = method.attention.rotate_query && method.attention.unrotate_output;
  if ((method.sink || method.recent) && inModel)
    for (int64_t step : {int64_t(1), int64_t(8), kPage})
      results.push_back(checkWindow(subject, kind, step));
  return results;
}

} // namespace kvq

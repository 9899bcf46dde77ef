// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/PageCheck.h"

#include "tools/gpu-check/DecodeCheck.h"

#include <algorithm>

namespace kvq {
namespace {

constexpr int64_t kPage = 64;

CheckResult named(const std::string &name, const RowKind &kind) {
  CheckResult result;
  result.name = name + " " + kind.name();
  return result;
}

void compareWithOracle(const Subject &subject, const RowKind &kind, Scene &scene,
                       const Decoded &got, CheckResult &result) {
  compareDecoded(subject,
                 decodeBounds(subject.device.target(), subject.method.attention.rows, kind), got,
                 scene.expected(), result);
}

/// One page of all KV heads, its bytes, and the arguments of a call that moves them.
struct OnePage {
  explicit OnePage(const Subject &subject)
      : layout(subject.layout(2 * kPage)), heads(subject.method.kv_heads),
        pool(subject.device, size_t(heads * layout.stride)),
        data(subject.device, size_t(heads * layout.bytes)) {
    pool.fill(0x11), data.fill(0x22);
    args.size = sizeof args;
    args.pool = {pool.data(), heads * layout.stride, layout.stride, kPage};
    args.pages = &page, args.count = 1;
    args.data = data.data(), args.bytes = data.bytes();
    args.place.layer = subject.layer;
    args.execution.stream = subject.device.stream();
  }

  RecordLayout layout; ///< of a page twice as long, so that a wrong import stays inside
  int64_t heads;
  int32_t page = 0;
  Buffer pool, data;
  kvq_move_args args = {};
};

/// Empty, or what was wrong: a page of another record or method is refused, and nothing written.
std::string checkRefusals(const Subject &subject) {
  OnePage one(subject);
  kvq_page_header header;
  require("export", kvq_export(subject.library.get(), &one.args, &header));
  subject.device.synchronize();
  one.data.fill(0x22);
  auto refused = [&](const kvq_page_header &other) {
    return kvq_import(subject.library.get(), &one.args, &other) == KVQ_OTHER_FORMAT;
  };
  kvq_page_header other = header;
  other.method_id[31] ^= 1;
  if (!refused(other))
    return "import: expected a page of another method to be refused";
  other = header;
  other.record_id[0] ^= 1;
  if (!refused(other))
    return "import: expected a page of another record to be refused";
  one.args.pool.page_tokens = 2 * kPage;
  if (!refused(header))
    return "import: expected a page of another number of tokens to be refused";
  subject.device.synchronize();
  std::vector<uint8_t> bytes(one.pool.bytes());
  one.pool.read(bytes.data());
  const bool kept =
      std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0x11; });
  return kept ? "" : "import: a page that was refused was written";
}

} // namespace

CheckResult checkMovedPages(const Subject &subject, const RowKind &kind) {
  CheckResult result = named("export and import", kind);
  SceneSpec spec = sceneOf(subject, kind, 2, kPage, 400);
  spec.lengths = {65, 0, 128, 1000};
  Scene scene(subject, spec);
  const Decoded before = scene.decode(kSplit);
  for (bool throughHost : {true, false}) {
    scene.movePages(throughHost);
    sameBits(scene.decode(kSplit), before,
             throughHost ? "pages moved through the host" : "pages moved on the device", result);
  }
  compareWithOracle(subject, kind, scene, before, result);
  if (result.failure.empty())
    result.failure = checkRefusals(subject);
  return result;
}

CheckResult checkSharedPages(const Subject &subject, const RowKind &kind) {
  CheckResult result = named("shared prefix", kind);
  SceneSpec spec = sceneOf(subject, kind, 2, kPage, 410);
  spec.prefix = 2 * kPage;
  spec.lengths = {spec.prefix + 100, spec.prefix + 5, spec.prefix};
  spec.qLength = 2;
  Scene copies(subject, spec);
  spec.sharePrefix = true;
  Scene shared(subject, spec);
  for (int64_t split : {int64_t(0), kSplit})
    sameBits(shared.decode(split), copies.decode(split), "pages that sequences share", result);
  compareWithOracle(subject, kind, shared, shared.decode(kSplit), result);
  return result;
}

CheckResult checkFarPages(const Subject &subject, const RowKind &kind, int64_t poolBytes) {
  CheckResult result = named("far pages", kind);
  SceneSpec spec = sceneOf(subject, kind, 2, kPage, 420);
  spec.lengths = {64, 70};
  const Decoded near = Scene(subject, spec).decode(kSplit);
  spec.atEnd = true, spec.poolBytes = poolBytes;
  Scene far(subject, spec);
  sameBits(far.decode(kSplit), near, "the last pages of the pool", result);
  compareWithOracle(subject, kind, far, near, result);
  return result;
}

CheckResult checkRowsAlone(const Subject &subject, const RowKind &kind, int64_t length,
                           int64_t poolBytes) {
  CheckResult result = named("8 query tokens at " + std::to_string(length), kind);
  SceneSpec spec = sceneOf(subject, kind, 1, kPage, 430);
  spec.lengths = {length}, spec.qLength = 8, spec.poolBytes = poolBytes;
  // Rows that a kernel takes at once share the moves of their sums, so let them be of one token in
  // both calls.
  spec.group = subject.rowClass();
  Scene scene(subject, spec);
  const Decoded all = scene.decode(kSplit);
  const int64_t heads = spec.heads * scene.group();
  for (int token = 0; token < spec.qLength; ++token)
    sameBits(scene.decodeToken(kSplit, 0, token),
             rowsOf(all, token * heads, heads, subject.method.value.record.dim),
             "query token " + std::to_string(token) + " alone and among eight", result);
  return result;
}

} // namespace kvq

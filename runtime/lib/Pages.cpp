// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/Pages.h"

#include "runtime/lib/Checks.h"
#include "runtime/lib/cuda/Launch.h"

#include <algorithm>
#include <cstring>

namespace kvq {
namespace {

constexpr char kMagic[8] = "KVQPAGE";
constexpr uint32_t kVersion = 1;

Status check(const kvq_library &library, const kvq_move_args &args, Call &call,
             RecordLayout &layout) {
  if (Status status = placeCall(library, args.place, call); !status.ok())
    return status;
  Arguments arguments;
  checkMove(arguments, call, args);
  if (!arguments.ok())
    return arguments.status;
  return pageLayout(*call.format, args.pool.page_tokens, layout);
}

Status copy(const kvq_library &library, void *to, const void *from, int64_t bytes, void *stream) {
  if (library.device)
    return cuda::copyAsync(library, to, from, size_t(bytes), stream);
  std::memcpy(to, from, size_t(bytes));
  return {};
}

/// Records of a page that lie without gaps are copied at once.
Status copyPages(const kvq_library &library, const Call &call, const kvq_move_args &args,
                 int64_t recordBytes, bool out) {
  char *data = static_cast<char *>(args.data), *pool = static_cast<char *>(args.pool.data);
  const bool dense = args.pool.head_stride == recordBytes;
  const int64_t pieces = dense ? 1 : call.heads, bytes = recordBytes * call.heads / pieces;
  for (int64_t i = 0; i < args.count; ++i)
    for (int64_t piece = 0; piece < pieces; ++piece) {
      char *record = pool + args.pages[i] * args.pool.page_stride + piece * args.pool.head_stride;
      void *to = out ? data : record, *from = out ? record : data;
      if (Status status = copy(library, to, from, bytes, args.execution.stream); !status.ok())
        return status;
      data += bytes;
    }
  return {};
}

std::string text(const uint8_t (&id)[32]) {
  Digest digest;
  std::copy(std::begin(id), std::end(id), digest.begin());
  return digestText(digest);
}

Status other(const char *what, const uint8_t (&ours)[32], const uint8_t (&got)[32]) {
  return {KVQ_OTHER_FORMAT,
          std::string("header.") + what + ": expected " + text(ours) + ", got " + text(got)};
}

/// `ours`: what an export with these args would give.
Status compare(const kvq_page_header &ours, const kvq_page_header &header) {
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kVersion)
    return {KVQ_OTHER_FORMAT,
            "header: expected one of kvq_export, version " + std::to_string(kVersion)};
  if (std::memcmp(header.record_id, ours.record_id, sizeof ours.record_id) != 0)
    return other("record_id", ours.record_id, header.record_id);
  if (std::memcmp(header.method_id, ours.method_id, sizeof ours.method_id) != 0)
    return other("method_id", ours.method_id, header.method_id);
  Arguments check;
  auto same = [&](const char *name, uint64_t expected, uint64_t got) {
    if (expected != got)
      check.fail(name, std::to_string(expected), std::to_string(got));
  };
  same("header.pages", ours.pages, header.pages);
  same("header.kv_heads", ours.kv_heads, header.kv_heads);
  same("header.page_tokens", ours.page_tokens, header.page_tokens);
  same("header.record_bytes", ours.record_bytes, header.record_bytes);
  // Constants differ from layer to layer and head to head.
  same("header.layer", ours.layer, header.layer);
  same("header.first_head", ours.first_head, header.first_head);
  return check.status;
}

kvq_page_header headerOf(const Call &call, const kvq_move_args &args, const RecordLayout &layout) {
  kvq_page_header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.kv_heads = uint32_t(call.heads);
  header.pages = uint64_t(args.count);
  header.page_tokens = uint64_t(layout.spec.page);
  header.record_bytes = uint64_t(layout.bytes);
  const kvq_page_geometry page = pageGeometryOf(*call.format, layout);
  std::copy(std::begin(page.record_id), std::end(page.record_id), header.record_id);
  std::copy(std::begin(page.method_id), std::end(page.method_id), header.method_id);
  header.layer = uint32_t(args.place.layer);
  header.first_head = uint32_t(call.firstHead);
  return header;
}

} // namespace

Status exportPages(const kvq_library &library, const kvq_move_args &args, kvq_page_header &header) {
  Call call;
  RecordLayout layout;
  if (Status status = check(library, args, call, layout); !status.ok())
    return status;
  header = headerOf(call, args, layout);
  return copyPages(library, call, args, layout.bytes, /*out=*/true);
}

Status importPages(const kvq_library &library, const kvq_move_args &args,
                   const kvq_page_header &header) {
  Call call;
  RecordLayout layout;
  if (Status status = check(library, args, call, layout); !status.ok())
    return status;
  if (Status status = compare(headerOf(call, args, layout), header); !status.ok())
    return status;
  return copyPages(library, call, args, layout.bytes, /*out=*/false);
}

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults that others reported of addresses, strides and bounds, each as a whole kind.
#include "test/numeric/CompiledLibrary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace kvq::test {
namespace {

std::vector<int32_t> shuffled(std::vector<int32_t> pages, uint64_t seed) {
  std::shuffle(pages.begin(), pages.end(), std::mt19937_64(seed));
  return pages;
}

/// Fault: the offset of a page wraps at 2^31 or 2^32, and another page's bytes are read or written.
/// The same tokens at both ends of a pool of more than 4 GiB, and across both borders.
TEST(AddressFaults, PageOffsetsBeyond2And4GiB) {
  for (int bits : {2, 4}) {
    SCOPED_TRACE(std::to_string(bits) + " bits");
    const CompiledLibrary library({exactMethod(128, bits, 32, 8)});
    PoolShape shape;
    shape.fill = -1;
    shape.pages = bits == 2 ? 500'000 : 265'000;
    PagedCache cache(library, shape);
    ASSERT_GT(cache.poolBytes, INT64_C(1) << 32);
    const Inputs inputs = makeInputs(cache.method(), 64, 1, Data::random, 1);
    std::vector<int32_t> starts = {0, int32_t(shape.pages) - 4};
    for (int64_t border : {INT64_C(1) << 31, INT64_C(1) << 32})
      starts.push_back(int32_t(border / cache.pool.page_stride) - 2);
    Request request;
    for (int32_t start : starts)
      request.pages.push_back(pageRun(start, 4)), request.lengths.push_back(64);
    // Offsets that wrap meet pages that hold something else.
    for (int32_t start : starts)
      cache.append(makeInputs(cache.method(), 64, 1, Data::random, uint64_t(start)), 0, 64,
                   pageRun(start, 4));
    for (const std::vector<int32_t> &pages : request.pages)
      cache.append(inputs, 0, 64, pages);
    DecodeCall call(cache, request);
    const size_t perSequence = call.q.size() / starts.size();
    for (size_t i = 1; i < starts.size(); ++i)
      std::copy_n(call.q.begin(), perSequence, &call.q[i * perSequence]);
    call.run();
    const size_t outputs = call.out.size() / starts.size();
    for (size_t i = 1; i < starts.size(); ++i)
      EXPECT_TRUE(sameBits(&call.out[i * outputs], call.out.data(), outputs))
          << "pages from " << starts[i];
    call.check();
  }
}

/// Fault: the number of a slot, page times tokens of a page, wraps at 2^31.
TEST(AddressFaults, SlotNumbersBeyond31Bits) {
  const CompiledLibrary library({exactMethod(32, 2, 1, 1)});
  PoolShape shape;
  shape.fill = -1;
  shape.pages = 140'000'000;
  PagedCache cache(library, shape);
  const std::vector<int32_t> pages = {139'999'990, 3, 134'217'728, 134'217'727};
  ASSERT_GT(int64_t(pages[0]) * shape.page, INT64_C(1) << 31);
  const Inputs inputs = makeInputs(cache.method(), 64, 1, Data::random, 2);
  cache.append(inputs, 0, 64, pages);
  PagedCache small(library, {});
  small.append(inputs, 0, 64, pageRun(0, 4));
  for (size_t i = 0; i < pages.size(); ++i)
    EXPECT_EQ(std::memcmp(cache.record(pages[i], 0), small.record(int64_t(i), 0),
                          size_t(small.layout.bytes)),
              0)
        << "page " << pages[i];
  DecodeCall call(cache, {{pages}, {64}});
  call.run();
  call.check();
}

/// Fault: the split path of several query tokens counts in 32 bits, seen only behind a long prefix.
/// Every row equals the call of one query token at the row's length.
TEST(AddressFaults, SeveralQueryTokensBehindALongPrefix) {
  const int64_t tokens = 200'000;
  for (int bits : {2, 4}) {
    const CompiledLibrary library({exactMethod(32, bits, 2, 1)});
    PoolShape shape;
    shape.fill = -1;
    shape.pages = tokens / shape.page;
    shape.pagePadding = 384 * 1024;
    PagedCache cache(library, shape);
    ASSERT_GT(cache.poolBytes, INT64_C(1) << 32);
    const std::vector<int32_t> pages = shuffled(pageRun(0, shape.pages), 3);
    cache.append(makeInputs(cache.method(), tokens, 1, Data::random, 3), 0, tokens, pages);
    Request request = {{pages}, {int32_t(tokens)}};
    request.qLength = 8;
    DecodeCall all(cache, request);
    all.run();
    request.qLength = 1;
    for (int64_t i = 0; i < 8; ++i) {
      request.lengths = {int32_t(tokens - 7 + i)};
      DecodeCall one(cache, request);
      std::copy_n(&all.q[size_t(i) * one.q.size()], one.q.size(), one.q.data());
      one.run();
      EXPECT_TRUE(sameBits(one.out.data(), all.row(i * 2), one.out.size())) << i;
      if (i == 7)
        one.check();
    }
  }
}

/// Fault: a length beyond the columns of the table reads past it. Host lengths: an error that names
/// the sequence, and nothing is written; in both forms of a table.
TEST(AddressFaults, LengthsBeyondTheTableAreRefused) {
  const CompiledLibrary library({exactMethod(64, 4, 4, 2)});
  PagedCache cache(library, {});
  const Inputs inputs = makeInputs(cache.method(), 64, 1, Data::random, 4);
  cache.append(inputs, 0, 64, pageRun(0, 4));
  for (bool indptr : {false, true})
    for (int32_t length : {49, 64, INT32_MAX}) {
      DecodeCall call(cache, {{pageRun(0, 3), pageRun(0, 3)}, {48, length}});
      call.args.max_length = INT32_MAX;
      call.args.split_tokens = KVQ_MAX_SPLIT_TOKENS;
      const std::vector<int32_t> ids = {0, 1, 2, 0, 1, 2}, starts = {0, 3, 6};
      if (indptr)
        call.args.table = {ids.data(), starts.data(), 0, 3};
      EXPECT_EQ(kvq_decode(library.get(), &call.args), KVQ_INVALID_ARGUMENT);
      EXPECT_EQ(std::string(kvq_last_error()).find("lengths[1]: expected at most the 3 pages"), 0u)
          << kvq_last_error();
      EXPECT_EQ(std::count(call.out.begin(), call.out.end(), 7.0f), int64_t(call.out.size()));
    }
}

/// Fault: codes are found with the pool's strides and parameters with strides made from the shape,
/// so that padding gives another page's scale.
TEST(AddressFaults, PaddedPagesAndHeadsEqualCompactOnes) {
  for (int bits : {2, 4, 8}) {
    MethodCase c = exactMethod(128, bits, 8, 2);
    c.method.key.record.group = 32;
    const CompiledLibrary library({c});
    PagedCache compact(library, {});
    const Inputs inputs = makeInputs(c.method, 120, 1, Data::heavyTailed, 5);
    const std::vector<int32_t> pages = shuffled(pageRun(0, 8), 5);
    compact.append(inputs, 0, 120, pages);
    DecodeCall expected(compact, {{pages, pages}, {120, 77}});
    expected.run();
    for (auto [head, page] : {std::pair(0, 2048), std::pair(256, 0), std::pair(128, 2048)}) {
      PoolShape shape;
      shape.headPadding = head, shape.pagePadding = page;
      PagedCache padded(library, shape);
      padded.append(inputs, 0, 120, pages);
      for (int64_t i = 0; i < 8; ++i)
        for (int64_t h = 0; h < 2; ++h) {
          EXPECT_EQ(
              std::memcmp(padded.record(i, h), compact.record(i, h), size_t(compact.layout.bytes)),
              0)
              << "page " << i << " head " << h;
          const uint8_t *behind = padded.record(i, h) + padded.layout.bytes;
          EXPECT_EQ(std::count(behind, behind + head, 0xff), head);
        }
      DecodeCall call(padded, expected.request);
      call.run();
      EXPECT_TRUE(call == expected);
    }
  }
}

/// Fault: a page size is taken where the cache is configured and fails later. What supports()
/// answers is what every call gives, and the rule is named.
TEST(AddressFaults, PageSizesAreRefusedBeforeACall) {
  const CompiledLibrary library({exactMethod(64, 4, 2, 1)});
  PoolShape shape;
  shape.page = 256, shape.pages = 4;
  PagedCache cache(library, shape);
  const Inputs inputs = makeInputs(cache.method(), 1, 1, Data::random, 6);
  for (int32_t tokens : {-16, -1, 1, 2, 8, 15, 16, 17, 24, 31, 32, 48, 64, 100, 128, 255, 256}) {
    SCOPED_TRACE("pages of " + std::to_string(tokens));
    const bool legal = tokens > 0 && tokens % 16 == 0;
    kvq_use use = {};
    use.size = sizeof use, use.page_tokens = tokens;
    kvq_reason reason = {};
    EXPECT_EQ(kvq_supports(library.get(), &use, &reason, 1, nullptr),
              legal ? KVQ_OK : KVQ_UNSUPPORTED);
    EXPECT_EQ(reason.code, legal ? 0 : KVQ_REASON_PAGE);
    const char *rule = "expected a positive multiple of 16";
    EXPECT_EQ(std::string(reason.text).find(rule) != std::string::npos, !legal) << reason.text;
    kvq_page_geometry geometry = {};
    geometry.size = sizeof geometry;
    EXPECT_EQ(kvq_query_page(library.get(), 0, tokens, &geometry),
              legal ? KVQ_OK : KVQ_INVALID_ARGUMENT);
    cache.pool.page_tokens = tokens;
    std::memset(cache.pool.data, 0xff, size_t(cache.poolBytes));
    EXPECT_EQ(cache.appendAt(inputs, {0}), legal ? KVQ_OK : KVQ_INVALID_ARGUMENT);
    const auto kept = std::count(cache.data(), cache.data() + cache.poolBytes, 0xff);
    EXPECT_EQ(kept == cache.poolBytes, !legal);
    DecodeCall call(cache, {{{0}}, {1}});
    call.args.workspace_bytes = 1 << 16;
    std::vector<uint8_t> workspace(size_t(1 << 16) + KVQ_WORKSPACE_ALIGN);
    const uintptr_t behind = reinterpret_cast<uintptr_t>(workspace.data()) % KVQ_WORKSPACE_ALIGN;
    call.args.workspace = workspace.data() + KVQ_WORKSPACE_ALIGN - behind;
    EXPECT_EQ(kvq_decode(library.get(), &call.args), legal ? KVQ_OK : KVQ_INVALID_ARGUMENT);
  }
}

} // namespace
} // namespace kvq::test

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults that others reported of pages: their size, their reuse, and moving them elsewhere; each as
// a whole kind.
#include "codegen/artifact/LibraryBuilder.h"
#include "test/numeric/CompiledLibrary.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace kvq::test {
namespace {

kvq_page_geometry pageOf(kvq_library *library, int64_t layer, int64_t tokens) {
  kvq_page_geometry page = {};
  page.size = sizeof page;
  EXPECT_EQ(kvq_query_page(library, layer, tokens, &page), KVQ_OK) << kvq_last_error();
  return page;
}

/// Geometry of a method without its kernels.
kvq_page_geometry pageOf(const CacheMethod &method, int64_t tokens) {
  std::vector<mlir::kvq::FormatArtifact> formats = {{method}};
  std::string bytes;
  EXPECT_EQ(libraryBytes(mlir::kvq::buildLibrary(std::move(formats)), bytes), "");
  kvq_library *library = nullptr;
  EXPECT_EQ(kvq_open_memory(bytes.data(), bytes.size(), nullptr, &library), KVQ_OK);
  const kvq_page_geometry page = pageOf(library, 0, tokens);
  kvq_close(library);
  return page;
}

/// Fault: the size of a page has several formulas, and one halves the head dim twice. Bits are
/// counted once, and neither a sliding window nor high-precision windows change a record.
TEST(PageFaults, OneFormulaForTheBytesOfAPage) {
  for (int dim : {32, 64, 96, 128, 192, 256, 512})
    for (int bits : {2, 4, 8})
      for (int64_t tokens : {16, 48, 64, 256})
        for (int group : {0, 32}) {
          MethodCase c = exactMethod(dim, bits, 6, 3);
          c.method.key.record.group = c.method.value.record.group = dim > 32 ? group : 0;
          c.method.key.rows = c.method.value.rows = ElementType::bf16;
          const kvq_page_geometry full = pageOf(c.method, tokens);
          const int64_t groups = group && dim > 32 ? dim / group : 1;
          EXPECT_EQ(full.record_bytes, tokens * 2 * (dim * bits / 8 + groups * 2 * 2));
          EXPECT_EQ(full.head_stride, (full.record_bytes + 127) / 128 * 128);
          EXPECT_EQ(full.page_bytes, 3 * full.head_stride);
          EXPECT_EQ(full.window_bytes, 0);
          c.method.attention.window = 1024;
          EXPECT_EQ(pageOf(c.method, tokens).page_bytes, full.page_bytes);
          c.method.sink = 16, c.method.recent = 64;
          const kvq_page_geometry windows = pageOf(c.method, tokens);
          EXPECT_EQ(windows.page_bytes, full.page_bytes);
          EXPECT_EQ(windows.window_bytes, tokens * 2 * dim * 2);
        }
}

/// Fault: a sequence over the pages of a shared prefix differs from one that computed them. Full
/// pages are shared and the last is copied; the chunks of the rest make no difference.
TEST(PageFaults, PrefixPagesEqualAColdRun) {
  for (int bits : {2, 4}) {
    MethodCase c = exactMethod(64, bits, 8, 2);
    std::mt19937_64 random = drawnFrom(56);
    addRotation(c, true, Rotation::hadamard, ElementType::f32, random);
    const CompiledLibrary library({c});
    PoolShape shape;
    shape.pages = 16;
    PagedCache cache(library, shape);
    const Inputs inputs = makeInputs(c.method, 120, 1, Data::heavyTailed, 56);
    const std::vector<int32_t> cold = pageRun(0, 8);
    cache.append(inputs, 0, 70, cold);
    const std::vector<uint8_t> prefix(cache.record(4, 0), cache.record(5, 0));
    cache.append(inputs, 70, 50, cold);
    DecodeCall expected(cache, {{cold}, {120}});
    expected.run();
    expected.check();
    for (int64_t chunk : {1, 7, 50}) {
      const std::vector<int32_t> warm = {0, 1, 2, 3, 10, 11, 12, 13};
      std::copy(prefix.begin(), prefix.end(), cache.record(10, 0));
      for (int64_t token = 70; token < 120; token += chunk)
        cache.append(inputs, token, std::min<int64_t>(chunk, 120 - token), warm);
      DecodeCall call(cache, {{warm}, {120}});
      call.run();
      EXPECT_TRUE(call == expected) << "chunks of " << chunk;
    }
    // Another continuation leaves the shared pages as they are.
    cache.append(makeInputs(c.method, 120, 1, Data::random, 57), 70, 50,
                 {0, 1, 2, 3, 10, 11, 12, 13});
    DecodeCall again(cache, {{cold}, {120}});
    again.run();
    EXPECT_TRUE(again == expected);
  }
}

/// Moves of pages between a cache and `data`.
struct Mover {
  kvq_library *library;
  std::vector<uint8_t> data;
  kvq_page_header header = {};

  kvq_move_args args(const PagedCache &cache, const std::vector<int32_t> &pages) {
    kvq_move_args args = {};
    args.size = sizeof args;
    args.pool = cache.pool, args.place = cache.place;
    args.pages = pages.data(), args.count = int64_t(pages.size());
    args.data = data.data(), args.bytes = data.size();
    return args;
  }
  kvq_status take(const PagedCache &cache, const std::vector<int32_t> &pages) {
    data.assign(pages.size() * size_t(cache.place.kv_heads * cache.layout.bytes), 0);
    const kvq_move_args move = args(cache, pages);
    return kvq_export(library, &move, &header);
  }
  kvq_status put(const PagedCache &cache, const std::vector<int32_t> &pages) {
    const kvq_move_args move = args(cache, pages);
    return kvq_import(library, &move, &header);
  }
};

/// Fault: a page in a format of its own is stored in a chain of another, and decoded as if it were
/// of that one. It is refused, and nothing is written: other bits, groups, steps, tokens of a page,
/// layers.
TEST(PageFaults, PagesOfAnotherFormatAreNeverDecoded) {
  std::vector<MethodCase> methods(4, exactMethod(64, 2, 4, 2));
  methods[1] = exactMethod(64, 4, 4, 2);
  methods[2].method.key.record.group = 32;
  std::mt19937_64 random = drawnFrom(57);
  addRotation(methods[3], true, Rotation::hadamard, ElementType::f32, random);
  const CompiledLibrary library(methods, {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {0, 0}});
  PagedCache source(library, {});
  source.append(makeInputs(source.method(), 100, 1, Data::random, 57), 0, 100, pageRun(0, 7));
  Mover mover = {library.get(), {}, {}};
  ASSERT_EQ(mover.take(source, {0, 1}), KVQ_OK) << kvq_last_error();
  mover.data.resize(1 << 16);
  for (int64_t layer = 0; layer < 5; ++layer)
    for (int64_t page : {16, 32}) {
      SCOPED_TRACE("layer " + std::to_string(layer) + " pages of " + std::to_string(page));
      PoolShape shape;
      shape.layer = layer, shape.page = page;
      PagedCache target(library, shape);
      const std::vector<uint8_t> before = target.bytes();
      const kvq_status status = mover.put(target, {3, 4});
      const bool same = layer == 0 && page == 16;
      // The same format of another layer has other constants: not these args' layer.
      const kvq_status refused = layer == 4 && page == 16 ? KVQ_INVALID_ARGUMENT : KVQ_OTHER_FORMAT;
      EXPECT_EQ(status, same ? KVQ_OK : refused) << kvq_last_error();
      EXPECT_EQ(target.bytes() == before, !same);
    }
}

/// Faults: what moves pages guesses the order of K and V, or copies codes without scales, or counts
/// bytes of a wider type. A page and head is one range of the bytes that the library states; it
/// decodes the same from another page of another pool, and other pages stay as they are.
TEST(PageFaults, PagesMoveAsTheRangesOfBytesThatAreStated) {
  for (int bits : {2, 4, 8}) {
    MethodCase c = exactMethod(96, bits, 8, 2);
    c.method.value.record.dim = 64, c.method.key.record.group = 32;
    const CompiledLibrary library({c});
    PagedCache source(library, {});
    source.append(makeInputs(c.method, 100, 1, Data::heavyTailed, 82), 0, 100, pageRun(0, 7));
    DecodeCall expected(source, {{pageRun(0, 7)}, {100}});
    expected.run();
    const kvq_page_geometry page = pageOf(library.get(), 0, 16);
    EXPECT_EQ(page.record_bytes, 16 * (160 * bits / 8 + (3 + 1) * 4));
    const std::vector<int32_t> others = {9, 2, 4, 11, 7, 1, 6};
    PoolShape shape;
    shape.pages = 12, shape.headPadding = 256, shape.pagePadding = 1024;
    PagedCache copied(library, shape), restored(library, shape);
    for (size_t i = 0; i < others.size(); ++i)
      for (int64_t head = 0; head < 2; ++head)
        std::memcpy(copied.record(others[i], head), source.record(int64_t(i), head),
                    size_t(page.record_bytes));
    Mover mover = {library.get(), {}, {}};
    ASSERT_EQ(mover.take(source, pageRun(0, 7)), KVQ_OK) << kvq_last_error();
    EXPECT_EQ(mover.header.record_bytes, uint64_t(page.record_bytes));
    EXPECT_EQ(mover.data.size(), size_t(7 * 2 * page.record_bytes));
    std::memset(source.pool.data, 0xff, size_t(source.poolBytes)); // the pages are gone
    ASSERT_EQ(mover.put(restored, others), KVQ_OK) << kvq_last_error();
    EXPECT_EQ(restored.bytes(), copied.bytes());
    for (PagedCache *cache : {&copied, &restored}) {
      DecodeCall call(*cache, {{others}, {100}});
      call.run();
      EXPECT_TRUE(call == expected) << bits << " bits";
      for (int64_t other : {0, 3, 5, 8, 10})
        EXPECT_EQ(std::count(cache->record(other, 0), cache->record(other + 1, 0), 0xff),
                  cache->pool.page_stride);
    }
  }
}

} // namespace
} // namespace kvq::test

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pages on the move, both forms of tables and slots, and the calls around decode, on the CPU.
#include "test/unit/RuntimeExample.h"

#include <numeric>

using namespace kvq;
using namespace kvq::test;

namespace {

/// A move of all pages of a scenario into `data`.
kvq_move_args moveOf(Scenario &scenario, const std::vector<int32_t> &pages, Memory &data) {
  kvq_move_args args = {};
  args.size = sizeof args;
  args.pool = scenario.append.pool, args.place = scenario.append.place;
  args.pages = pages.data(), args.count = int64_t(pages.size());
  args.data = data.data, args.bytes = data.bytes;
  return args;
}

kvq_page_geometry pageOf(const Handle &library, int64_t tokens = 0) {
  kvq_page_geometry page = {};
  page.size = sizeof page;
  EXPECT_EQ(kvq_query_page(library.get(), 0, tokens, &page), KVQ_OK);
  return page;
}

TEST(RuntimePages, MovedPagesDecodeTheSame) {
  const Handle library = openExample();
  Scenario from, to;
  ASSERT_EQ(kvq_append(library.get(), &from.append), KVQ_OK);
  const int64_t bytes = pageOf(library).record_bytes;
  Memory data(size_t(4 * from.heads * bytes));
  const std::vector<int32_t> pages = {2, 0, 3}, others = {1, 3, 0};
  kvq_page_header header = {};
  const kvq_move_args out = moveOf(from, pages, data), in = moveOf(to, others, data);
  ASSERT_EQ(kvq_export(library.get(), &out, &header), KVQ_OK) << kvq_last_error();
  EXPECT_STREQ(header.magic, "KVQPAGE");
  EXPECT_EQ(header.pages, 3u);
  EXPECT_EQ(header.kv_heads, 2u);
  EXPECT_EQ(header.record_bytes, uint64_t(bytes));
  ASSERT_EQ(kvq_import(library.get(), &in, &header), KVQ_OK) << kvq_last_error();
  to.table = {1, 3, 0, -7};
  to.decode.table.ids = to.table.data();
  ASSERT_EQ(kvq_decode(library.get(), &to.decode), KVQ_OK) << kvq_last_error();
  to.expectResults();
  // Records without gaps between heads move as whole pages, to the same bytes.
  Memory dense(size_t(4 * to.heads * bytes)), again(data.bytes);
  kvq_move_args packed = moveOf(to, {}, data);
  const std::vector<int32_t> first = {0, 1, 2};
  packed.pages = first.data(), packed.count = 3;
  packed.pool = {dense.data, to.heads * bytes, bytes, 32};
  ASSERT_EQ(bytes % KVQ_RECORD_ALIGN, 0);
  ASSERT_EQ(kvq_import(library.get(), &packed, &header), KVQ_OK) << kvq_last_error();
  packed.data = again.data;
  ASSERT_EQ(kvq_export(library.get(), &packed, &header), KVQ_OK);
  EXPECT_EQ(std::memcmp(again.data, data.data, size_t(3 * to.heads * bytes)), 0);
}

TEST(RuntimePages, PagesOfAnotherFormatAreRefused) {
  const Handle library = openExample();
  Scenario scenario;
  Memory data(1 << 16);
  const std::vector<int32_t> pages = {0};
  kvq_page_header header = {};
  kvq_move_args args = moveOf(scenario, pages, data);
  ASSERT_EQ(kvq_export(library.get(), &args, &header), KVQ_OK);
  auto refused = [&](kvq_status status, const char *part, auto change) {
    kvq_page_header other = header;
    change(other);
    std::memset(scenario.pool.data, 0x55, scenario.pool.bytes);
    EXPECT_EQ(kvq_import(library.get(), &args, &other), status) << part;
    EXPECT_NE(std::string(kvq_last_error()).find(part), std::string::npos) << kvq_last_error();
    EXPECT_EQ(scenario.pool.data[0], 0x55) << "something was written";
  };
  using H = kvq_page_header;
  refused(KVQ_OTHER_FORMAT, "header", [](H &h) { h.magic[0] = 'X'; });
  refused(KVQ_OTHER_FORMAT, "header", [](H &h) { h.version = 2; });
  refused(KVQ_OTHER_FORMAT, "record_id: expected", [](H &h) { h.record_id[31] ^= 1; });
  refused(KVQ_OTHER_FORMAT, "method_id: expected", [](H &h) { h.method_id[0] ^= 1; });
  refused(KVQ_INVALID_ARGUMENT, "header.pages", [](H &h) { h.pages = 2; });
  refused(KVQ_INVALID_ARGUMENT, "header.kv_heads", [](H &h) { h.kv_heads = 1; });
  refused(KVQ_INVALID_ARGUMENT, "header.layer", [](H &h) { h.layer = 0; });
  args.bytes = 3;
  EXPECT_EQ(kvq_import(library.get(), &args, &header), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(kvq_last_error()).find("bytes: expected at least"), 0u);
  const std::vector<int32_t> negative = {-1};
  args = moveOf(scenario, negative, data);
  EXPECT_EQ(kvq_export(library.get(), &args, &header), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(kvq_last_error()).find("pages[0]: expected"), 0u);
}

/// Ids tell records and methods apart, not names; and not pages of the same record.
TEST(RuntimePages, Ids) {
  const Handle library = openExample();
  LibraryContents contents = example();
  CacheMethod method = exampleMethod();
  auto opened = [&] {
    contents.formats[0].method = methodText(method);
    Handle out;
    EXPECT_EQ(open(contents, out), KVQ_OK) << kvq_last_error();
    return pageOf(out);
  };
  const kvq_page_geometry base = pageOf(library), longer = pageOf(library, 64);
  auto same = [](const uint8_t (&a)[32], const uint8_t (&b)[32]) {
    return std::memcmp(a, b, sizeof a) == 0;
  };
  EXPECT_FALSE(same(base.record_id, longer.record_id)) << "a record of more tokens is another one";
  EXPECT_TRUE(same(base.method_id, longer.method_id));
  method.name = "renamed";
  EXPECT_TRUE(same(opened().method_id, base.method_id));
  method.key.round.tie = RoundRule::Tie::half_even;
  EXPECT_FALSE(same(opened().method_id, base.method_id));
  EXPECT_TRUE(same(opened().record_id, base.record_id));
  method = exampleMethod();
  contents.formats[0].constants[3] ^= 1;
  EXPECT_FALSE(same(opened().method_id, base.method_id));
}

TEST(RuntimePages, TablesByIndptr) {
  const Handle library = openExample();
  Scenario scenario;
  ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
  const std::vector<int32_t> ids = {2, 0, 3, 2, 0}, indptr = {0, 3, 3, 5};
  scenario.decode.table = {ids.data(), indptr.data(), 0, 3};
  ASSERT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK) << kvq_last_error();
  scenario.expectResults();
  const std::vector<int32_t> few = {0, 3, 3, 4};
  scenario.decode.table.indptr = few.data();
  EXPECT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(kvq_last_error()).find("lengths[2]: expected at most the 1 pages"), 0u)
      << kvq_last_error();
}

TEST(RuntimePages, SlotsOf32BitsAndTheReservedOne) {
  const Handle library = openExample();
  Scenario wide, narrow;
  ASSERT_EQ(kvq_append(library.get(), &wide.append), KVQ_OK);
  std::vector<int32_t> slots(narrow.slots.begin(), narrow.slots.end());
  narrow.append.slots = slots.data(), narrow.append.flags = KVQ_SLOTS_32;
  ASSERT_EQ(kvq_append(library.get(), &narrow.append), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(std::memcmp(wide.pool.data, narrow.pool.data, wide.pool.bytes), 0);
  const std::vector<char> before(wide.pool.data, wide.pool.data + wide.pool.bytes);
  std::fill(wide.slots.begin(), wide.slots.end(), 0);
  std::memset(wide.k.data, 0, wide.k.bytes);
  wide.append.flags = KVQ_RESERVED_SLOT, wide.append.reserved_slot = 0;
  ASSERT_EQ(kvq_append(library.get(), &wide.append), KVQ_OK);
  EXPECT_EQ(std::memcmp(wide.pool.data, before.data(), before.size()), 0);
  wide.append.flags = 0;
  ASSERT_EQ(kvq_append(library.get(), &wide.append), KVQ_OK);
  EXPECT_NE(std::memcmp(wide.pool.data, before.data(), before.size()), 0);
  wide.append.flags = KVQ_STORED_BASIS;
  EXPECT_EQ(kvq_append(library.get(), &wide.append), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(kvq_last_error()).find("flags: expected"), 0u);
}

TEST(RuntimePages, WhatTheFormatLacksIsNamed) {
  const Handle library = openExample();
  Scenario scenario;
  EXPECT_EQ(kvq_append_window(library.get(), &scenario.append), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "the format has no high-precision windows");
  kvq_commit_args commit = {};
  commit.size = sizeof commit, commit.step = 1;
  EXPECT_EQ(kvq_commit(library.get(), &commit), KVQ_UNSUPPORTED);
  kvq_demote_args demote = {};
  demote.size = sizeof demote;
  EXPECT_EQ(kvq_demote(library.get(), &demote), KVQ_UNSUPPORTED);
  EXPECT_EQ(kvq_dequantize(library.get(), &scenario.append), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "the library has no kernel 'dequantize' for this target");
  scenario.decode.windows.quantized_lengths = scenario.lengths.data();
  EXPECT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(kvq_last_error()).find("windows: expected zeros"), 0u);
}

TEST(RuntimePages, LayersAndModel) {
  LibraryContents contents = example();
  contents.layers = {{-1, 0}, {0, 1}, {0, 0}};
  Handle library;
  ASSERT_EQ(open(contents, library), KVQ_OK) << kvq_last_error();
  kvq_model model = {};
  model.size = sizeof model;
  ASSERT_EQ(kvq_query_model(library.get(), &model), KVQ_OK);
  EXPECT_EQ(model.layers, 3);
  EXPECT_EQ(model.formats, 1);
  int32_t format = 7;
  EXPECT_EQ(kvq_query_layer(library.get(), 0, &format), KVQ_OK);
  EXPECT_EQ(format, -1);
  EXPECT_EQ(kvq_query_layer(library.get(), 2, &format), KVQ_OK);
  EXPECT_EQ(format, 0);
  EXPECT_EQ(kvq_query_layer(library.get(), 3, &format), KVQ_INVALID_ARGUMENT);
  Scenario scenario;
  scenario.append.place.layer = scenario.decode.place.layer = 0;
  EXPECT_EQ(kvq_append(library.get(), &scenario.append), KVQ_UNSUPPORTED);
  EXPECT_NE(std::string(kvq_last_error()).find("does not quantize"), std::string::npos);
  // Layer 1 of the model has the constants of layer 1 of the format, layer 2 those of layer 0.
  scenario.append.place.layer = scenario.decode.place.layer = 1;
  ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
  ASSERT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK);
  scenario.expectResults();
  scenario.append.place.layer = scenario.decode.place.layer = 2, scenario.layer = 0;
  ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
  ASSERT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK);
  scenario.expectResults();
  EXPECT_EQ(kvq_load(library.get(), -1), KVQ_OK);
  EXPECT_EQ(kvq_load(library.get(), 0), KVQ_UNSUPPORTED);
}

/// Each layer is served by the kernels of its own format.
TEST(RuntimePages, LayersOfTwoFormats) {
  LibraryContents contents = example();
  contents.formats.push_back(contents.formats[0]);
  contents.objects.push_back(readAll(KVQ_TEST_OTHER_KERNELS));
  const std::vector<LibraryKernel> kernels = contents.kernels;
  for (LibraryKernel kernel : kernels) {
    kernel.format = kernel.object = 1;
    contents.kernels.push_back(kernel);
  }
  contents.layers = {{0, 1}, {1, 1}, {-1, 0}};
  Handle library;
  ASSERT_EQ(open(contents, library), KVQ_OK) << kvq_last_error();
  Scenario scenario;
  for (int64_t layer : {0, 1}) {
    int32_t format = -1;
    ASSERT_EQ(kvq_query_layer(library.get(), layer, &format), KVQ_OK);
    EXPECT_EQ(format, layer);
    scenario.append.place.layer = scenario.decode.place.layer = layer;
    ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
    ASSERT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK);
    scenario.expectResults(layer ? 1000 : 0);
  }
}

/// One workspace of the largest call serves all, and nothing behind its size is touched.
TEST(RuntimePages, WorkspaceIsABound) {
  const Handle library = openExample();
  uint32_t seed = 1;
  auto below = [&](uint32_t count) {
    seed = seed * 1664525u + 1013904223u;
    return int64_t((seed >> 8) % count);
  };
  for (int i = 0; i < 200; ++i) {
    kvq_decode_args large = {}, small = {};
    large.size = small.size = sizeof large;
    large.batch = 1 + below(40), large.max_length = below(3000), large.q_length = 1 + below(16);
    small = large;
    small.batch = below(uint32_t(large.batch) + 1);
    small.max_length = below(uint32_t(large.max_length) + 1);
    small.q_length = 1 + below(uint32_t(large.q_length));
    size_t most = 0, least = 0;
    ASSERT_EQ(kvq_workspace_size(library.get(), &large, &most), KVQ_OK);
    ASSERT_EQ(kvq_workspace_size(library.get(), &small, &least), KVQ_OK);
    ASSERT_LE(least, most) << small.batch << " " << small.max_length << " " << small.q_length;
  }
  Scenario scenario;
  ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
  size_t bytes = 0;
  ASSERT_EQ(kvq_workspace_size(library.get(), &scenario.decode, &bytes), KVQ_OK);
  std::memset(scenario.workspace.data, 0x33, scenario.workspace.bytes);
  scenario.decode.workspace_bytes = bytes;
  ASSERT_EQ(kvq_workspace_init(library.get(), scenario.workspace.data, bytes, nullptr), KVQ_OK);
  ASSERT_EQ(kvq_plan(library.get(), &scenario.decode), KVQ_OK) << kvq_last_error();
  ASSERT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK);
  for (size_t i = bytes; i < scenario.workspace.bytes; ++i)
    ASSERT_EQ(scenario.workspace.data[i], 0x33) << i;
  uint32_t faults = 1;
  std::memcpy(&faults, scenario.workspace.data, sizeof faults);
  EXPECT_EQ(faults, 0u);
  EXPECT_EQ(kvq_workspace_init(library.get(), scenario.workspace.data, 64, nullptr),
            KVQ_INVALID_ARGUMENT);
}

} // namespace

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C interface over kernels written by hand (runtime_kernels.c), so that a failure here is one
// of the loader or the launcher.
#include "runtime/lib/ThreadPool.h"
#include "test/unit/RuntimeExample.h"

#include <numeric>
#include <thread>

using namespace kvq;
using namespace kvq::test;

extern "C" const char *nameFromC(const kvq_library *library, kvq_geometry *geometry);

namespace {

TEST(Runtime, QueryTellsTheGeometry) {
  const Handle library = openExample();
  kvq_geometry geometry = {};
  geometry.size = sizeof geometry;
  ASSERT_EQ(kvq_query(library.get(), 0, &geometry), KVQ_OK);
  EXPECT_EQ(geometry.size, sizeof geometry);
  EXPECT_EQ(geometry.q_heads, 4);
  EXPECT_EQ(geometry.kv_heads, 2);
  EXPECT_EQ(geometry.key_dim, 16);
  EXPECT_EQ(geometry.value_dim, 8);
  EXPECT_EQ(geometry.key_bits, 8);
  EXPECT_EQ(geometry.value_bits, 4);
  EXPECT_EQ(geometry.key_rows, KVQ_F32);
  EXPECT_EQ(geometry.page_tokens, 32);
  EXPECT_EQ(geometry.page_step, 16);
  EXPECT_EQ(geometry.append_step, 1);
  EXPECT_EQ(geometry.query_rotated, 0);
  EXPECT_EQ(geometry.scale, 0.5f);
  EXPECT_EQ(kvq_method_text(library.get(), 1), methodText(exampleMethod()));
  EXPECT_STREQ(kvq_manifest_text(library.get()), R"({"pipeline":"example"})");
  EXPECT_EQ(kvq_method_text(nullptr, 0), nullptr);
}

TEST(Runtime, QueryPageCountsBytes) {
  const Handle library = openExample();
  for (int64_t tokens : {0, 16, 32, 48}) {
    RecordSpec spec = exampleMethod().record();
    if (tokens)
      spec.page = int(tokens);
    const RecordLayout layout = buildRecord(spec);
    kvq_page_geometry page = {};
    page.size = sizeof page;
    ASSERT_EQ(kvq_query_page(library.get(), 1, tokens, &page), KVQ_OK);
    EXPECT_EQ(page.record_bytes, layout.bytes);
    EXPECT_EQ(page.head_stride, layout.stride);
    EXPECT_EQ(page.page_bytes, 2 * layout.stride);
    EXPECT_EQ(page.bits_per_element, bitsPerElement(layout));
  }
  kvq_page_geometry page = {};
  page.size = sizeof page;
  EXPECT_EQ(kvq_query_page(library.get(), 1, 24, &page), KVQ_INVALID_ARGUMENT);
  EXPECT_STREQ(kvq_last_error(), "page_tokens: expected a positive multiple of 16, or 0, got 24");
}

TEST(Runtime, AppendAndDecodePassEveryArgument) {
  const Handle library = openExample();
  Scenario scenario;
  ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK) << kvq_last_error();
  ASSERT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK) << kvq_last_error();
  scenario.expectResults();
  scenario.decode.scale = 2;
  ASSERT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK);
  scenario.expectResults(0, 2);
}

TEST(Runtime, PartOfTheHeads) {
  const Handle library = openExample();
  Scenario scenario(1, 1);
  ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK) << kvq_last_error();
  ASSERT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK) << kvq_last_error();
  scenario.expectResults();
}

TEST(Runtime, NegativeSlotsAreSkipped) {
  const Handle library = openExample();
  Scenario scenario;
  ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
  const std::vector<char> before(scenario.pool.data, scenario.pool.data + scenario.pool.bytes);
  std::memset(scenario.k.data, 0, scenario.k.bytes);
  std::fill(scenario.slots.begin(), scenario.slots.end(), -1);
  ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
  EXPECT_EQ(std::memcmp(before.data(), scenario.pool.data, before.size()), 0);
}

TEST(Runtime, NothingToDoNeedsNoPointers) {
  const Handle library = openExample();
  kvq_token_args append = {};
  append.size = sizeof append;
  EXPECT_EQ(kvq_append(library.get(), &append), KVQ_OK) << kvq_last_error();
  kvq_decode_args decode = {};
  decode.size = sizeof decode;
  EXPECT_EQ(kvq_decode(library.get(), &decode), KVQ_OK) << kvq_last_error();
}

TEST(Runtime, LseMayBeNull) {
  const Handle library = openExample();
  Scenario scenario;
  scenario.decode.lse = nullptr;
  ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
  ASSERT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK);
  EXPECT_TRUE(std::isnan(scenario.lse.at(0)));
}

struct Calls {
  std::vector<int64_t> items;

  static void run(void *context, int64_t items, kvq_item_fn fn, void *task) {
    static_cast<Calls *>(context)->items.push_back(items);
    for (int64_t i = items; i-- > 0;)
      fn(task, i);
  }
};

TEST(Runtime, CallersParallelForRunsTheItems) {
  const Handle library = openExample();
  Scenario scenario;
  Calls calls;
  scenario.append.execution.parallel_for = scenario.decode.execution.parallel_for = Calls::run;
  scenario.append.execution.parallel_context = scenario.decode.execution.parallel_context = &calls;
  ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
  ASSERT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK);
  scenario.expectResults();
  // tokens * heads; sequences * heads; the same times ceil(100 / 16) splits; sequences * heads
  EXPECT_EQ(calls.items, (std::vector<int64_t>{140, 6, 42, 6}));
}

TEST(Runtime, WorkspaceSize) {
  const Handle library = openExample();
  Scenario scenario;
  size_t bytes = 0;
  ASSERT_EQ(kvq_workspace_size(library.get(), &scenario.decode, &bytes), KVQ_OK);
  // 128 for faults, 6 (sequence, head) of 2 floats rounded up to 64 bytes, 42 pieces of 2 floats
  EXPECT_EQ(bytes, 128u + 64 + 42 * 8);
  scenario.decode.workspace_bytes = bytes;
  ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
  EXPECT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK);
  scenario.decode.workspace_bytes = bytes - 1;
  EXPECT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_INVALID_ARGUMENT);
  EXPECT_STREQ(kvq_last_error(), "workspace_bytes: expected at least 528, got 527");
  scenario.decode.split_tokens = 0; // 1024: one split
  ASSERT_EQ(kvq_workspace_size(library.get(), &scenario.decode, &bytes), KVQ_OK);
  EXPECT_EQ(bytes, 128u + 64 + 6 * 8);
  scenario.decode.batch = INT32_MAX, scenario.decode.max_length = INT32_MAX;
  scenario.decode.split_tokens = 16;
  EXPECT_EQ(kvq_workspace_size(library.get(), &scenario.decode, &bytes), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(bytes, 128u + 64 + 6 * 8);
}

/// `change` makes one argument wrong; the message must begin with its name, and nothing is written.
template <typename Change> void expectAppendError(const char *name, Change change) {
  const Handle library = openExample();
  Scenario scenario;
  change(scenario.append);
  EXPECT_EQ(kvq_append(library.get(), &scenario.append), KVQ_INVALID_ARGUMENT) << name;
  EXPECT_EQ(std::string(kvq_last_error()).find(std::string(name) + ": expected"), 0u)
      << name << ": " << kvq_last_error();
  EXPECT_TRUE(std::isnan(scenario.pool.at(0)));
}

template <typename Change> void expectDecodeError(const char *name, Change change) {
  const Handle library = openExample();
  Scenario scenario;
  ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
  change(scenario.decode, scenario);
  EXPECT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_INVALID_ARGUMENT) << name;
  EXPECT_EQ(std::string(kvq_last_error()).find(std::string(name) + ": expected"), 0u)
      << name << ": " << kvq_last_error();
  EXPECT_TRUE(std::isnan(scenario.out.at(0)));
}

TEST(Runtime, AppendChecksItsArguments) {
  using A = kvq_token_args;
  expectAppendError("args.size", [](A &a) { a.size = 8; });
  expectAppendError("k", [](A &a) { a.k = nullptr; });
  expectAppendError("v", [](A &a) { a.v = static_cast<char *>(a.v) + 4; });
  expectAppendError("slots", [](A &a) { a.slots = nullptr; });
  expectAppendError("pool.data", [](A &a) { a.pool.data = nullptr; });
  expectAppendError("pool.data", [](A &a) { a.pool.data = static_cast<char *>(a.pool.data) + 64; });
  expectAppendError("k_token_stride", [](A &a) { a.k_token_stride += 4; });
  expectAppendError("k_head_stride", [](A &a) { a.k_head_stride += 8; });
  expectAppendError("v_token_stride", [](A &a) { a.v_token_stride += 1; });
  expectAppendError("v_head_stride", [](A &a) { a.v_head_stride += 4; });
  expectAppendError("pool.page_stride", [](A &a) { a.pool.page_stride += 64; });
  expectAppendError("pool.page_stride", [](A &a) { a.pool.page_stride = 0; });
  expectAppendError("pool.head_stride", [](A &a) { a.pool.head_stride = 128; });
  expectAppendError("pool.page_tokens", [](A &a) { a.pool.page_tokens = 24; });
  expectAppendError("pool.page_tokens", [](A &a) { a.pool.page_tokens = 0; });
  expectAppendError("tokens", [](A &a) { a.tokens = -1; });
  expectAppendError("place.layer", [](A &a) { a.place.layer = 2; });
  expectAppendError("place.first_head", [](A &a) { a.place.first_head = -1; });
  expectAppendError("place.kv_heads", [](A &a) { a.place.kv_heads = 3; });
  expectAppendError("place.first_head + place.kv_heads", [](A &a) { a.place.first_head = 1; });
}

TEST(Runtime, DecodeChecksItsArguments) {
  using D = kvq_decode_args;
  using S = Scenario;
  expectDecodeError("args.size", [](D &d, S &) { d.size = 0; });
  expectDecodeError("q", [](D &d, S &) { d.q = nullptr; });
  expectDecodeError("out", [](D &d, S &) { d.out = static_cast<char *>(d.out) + 4; });
  expectDecodeError("q_token_stride", [](D &d, S &) { d.q_token_stride += 4; });
  expectDecodeError("q_head_stride", [](D &d, S &) { d.q_head_stride += 4; });
  expectDecodeError("out_token_stride", [](D &d, S &) { d.out_token_stride = 0; });
  expectDecodeError("out_head_stride", [](D &d, S &) { d.out_head_stride = 16; });
  expectDecodeError("lse_token_stride", [](D &d, S &) { d.lse_token_stride += 2; });
  expectDecodeError("lse_head_stride", [](D &d, S &) { d.lse_head_stride = 0; });
  expectDecodeError("pool.data", [](D &d, S &) { d.pool.data = nullptr; });
  expectDecodeError("pool.head_stride", [](D &d, S &) { d.pool.head_stride = -4096; });
  expectDecodeError("pool.page_tokens", [](D &d, S &) { d.pool.page_tokens = 8; });
  expectDecodeError("table.ids", [](D &d, S &) { d.table.ids = nullptr; });
  expectDecodeError("table.row_stride", [](D &d, S &) { d.table.row_stride = 4; });
  expectDecodeError("table.row_stride", [](D &d, S &) { d.table.row_stride = 6; });
  expectDecodeError("table.columns", [](D &d, S &) { d.table.columns = -1; });
  expectDecodeError("lengths[0]", [](D &d, S &) { d.table.columns = 2; });
  expectDecodeError("lengths", [](D &d, S &) { d.lengths = nullptr; });
  expectDecodeError("lengths[2]", [](D &, S &s) { s.lengths[2] = -1; });
  expectDecodeError("lengths[0]", [](D &d, S &) { d.max_length = 69; });
  expectDecodeError("batch", [](D &d, S &) { d.batch = -1; });
  expectDecodeError("split_tokens", [](D &d, S &) { d.split_tokens = 24; });
  expectDecodeError("split_tokens", [](D &d, S &) { d.split_tokens = 2 * KVQ_MAX_SPLIT_TOKENS; });
  expectDecodeError("place.layer", [](D &d, S &) { d.place.layer = -1; });
  expectDecodeError("scale", [](D &d, S &) { d.scale = NAN; });
  expectDecodeError("flags", [](D &d, S &) { d.flags = 2; });
  expectDecodeError("workspace", [](D &d, S &) { d.workspace = nullptr; });
  expectDecodeError("workspace",
                    [](D &d, S &) { d.workspace = static_cast<char *>(d.workspace) + 32; });
  expectDecodeError("place.first_head + place.kv_heads", [](D &d, S &) { d.place.first_head = 1; });
}

TEST(Runtime, NullArgumentsAreErrors) {
  const Handle library = openExample();
  kvq_library *out = nullptr;
  size_t bytes = 0;
  kvq_decode_args decode = {};
  decode.size = sizeof decode;
  EXPECT_EQ(kvq_open(nullptr, nullptr, &out), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(kvq_open("x", nullptr, nullptr), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(kvq_open_memory(nullptr, 0, nullptr, &out), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(kvq_query(nullptr, 0, nullptr), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(kvq_query(library.get(), 0, nullptr), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(kvq_query_page(library.get(), 1, 0, nullptr), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(kvq_supports(nullptr, nullptr, nullptr, 0, nullptr), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(kvq_append(library.get(), nullptr), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(kvq_append(nullptr, nullptr), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(kvq_decode(library.get(), nullptr), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(kvq_workspace_size(library.get(), &decode, nullptr), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(kvq_workspace_size(nullptr, &decode, &bytes), KVQ_INVALID_ARGUMENT);
  kvq_close(nullptr);
}

TEST(Runtime, StructsOfALaterVersion) {
  const Handle library = openExample();
  struct {
    kvq_geometry known;
    int64_t later;
  } geometry = {};
  geometry.known.size = sizeof geometry, geometry.later = 5;
  EXPECT_EQ(kvq_query(library.get(), 0, &geometry.known), KVQ_OK);
  EXPECT_EQ(geometry.later, 0);
  EXPECT_EQ(geometry.known.size, sizeof geometry);
  struct {
    kvq_use known;
    int64_t later;
  } use = {};
  use.known.size = sizeof use;
  EXPECT_EQ(kvq_supports(library.get(), &use.known, nullptr, 0, nullptr), KVQ_OK);
  use.later = 1;
  EXPECT_EQ(kvq_supports(library.get(), &use.known, nullptr, 0, nullptr), KVQ_INVALID_ARGUMENT);
}

TEST(Runtime, SupportsGivesAllReasons) {
  Handle library;
  ASSERT_EQ(open(example(), library, 0), KVQ_OK);
  kvq_use use = {};
  use.size = sizeof use;
  use.q_heads = 3, use.kv_heads = 3, use.key_dim = 128, use.value_rows = KVQ_BF16, use.layers = 3;
  use.page_tokens = 20, use.q_length = 17, use.sink = 64, use.softcap = 30;
  use.flags = KVQ_USE_CAPTURE | KVQ_USE_DEMOTE | KVQ_USE_DEQUANTIZE;
  kvq_reason reasons[16] = {};
  int32_t count = 0;
  EXPECT_EQ(kvq_supports(library.get(), &use, reasons, 16, &count), KVQ_UNSUPPORTED);
  const std::pair<kvq_reason_code, const char *> expected[] = {
      {KVQ_REASON_LAYERS, "layers: the library has 2, asked for 3"},
      {KVQ_REASON_NO_CODE,
       "the library was opened without KVQ_ALLOW_HOST_CODE, so its kernels are not loaded"},
      {KVQ_REASON_HEADS, "kv_heads: the library has 2, asked for 3"},
      {KVQ_REASON_HEADS, "q_heads: the library has a multiple of 2, asked for 3"},
      {KVQ_REASON_HEAD_DIM, "key_dim: the library has 16, asked for 128"},
      {KVQ_REASON_ELEMENT, "value_rows: the library has f32, asked for bf16"},
      {KVQ_REASON_PAGE, "page_tokens: expected a positive multiple of 16, or 0, got 20"},
      {KVQ_REASON_Q_LENGTH, "q_length: the library has at most 16, asked for 17"},
      {KVQ_REASON_WINDOWS, "sink: the library has 0, asked for 64"},
      {KVQ_REASON_SOFTCAP, "softcap: the library has 0.000000, asked for 30.000000"},
      {KVQ_REASON_CAPTURE, "capture: expected a library that was opened for a CUDA device"},
      {KVQ_REASON_WINDOWS, "the format has no high-precision windows"}};
  ASSERT_EQ(count, int32_t(std::size(expected)));
  std::string lines;
  for (int32_t i = 0; i < count; ++i) {
    EXPECT_EQ(reasons[i].code, expected[i].first) << i;
    EXPECT_STREQ(reasons[i].text, expected[i].second);
    EXPECT_EQ(reasons[i].layer, i ? 0 : -1);
    lines += (i ? "\n" : "") + std::string(expected[i].second);
  }
  EXPECT_EQ(kvq_last_error(), lines);
  // The count is that of all, whatever fits.
  std::memset(reasons, 0, sizeof reasons);
  EXPECT_EQ(kvq_supports(library.get(), &use, reasons, 1, &count), KVQ_UNSUPPORTED);
  EXPECT_EQ(count, int32_t(std::size(expected)));
  EXPECT_EQ(reasons[1].code, 0);
  EXPECT_EQ(kvq_supports(library.get(), &use, nullptr, 1, &count), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(kvq_supports(library.get(), &use, nullptr, -1, &count), KVQ_INVALID_ARGUMENT);
  ASSERT_EQ(open(example(), library), KVQ_OK);
  EXPECT_EQ(kvq_supports(library.get(), nullptr, nullptr, 0, nullptr), KVQ_OK);
}

TEST(Runtime, HostCodeIsLoadedOnlyWhenAllowed) {
  Handle library;
  ASSERT_EQ(open(example(), library, 0), KVQ_OK);
  Scenario scenario;
  size_t bytes = 0;
  EXPECT_EQ(kvq_append(library.get(), &scenario.append), KVQ_UNSUPPORTED);
  EXPECT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_UNSUPPORTED);
  EXPECT_EQ(kvq_workspace_size(library.get(), &scenario.decode, &bytes), KVQ_UNSUPPORTED);
  // What the object is does not matter then.
  LibraryContents contents = example();
  contents.objects[0] = "not an object";
  EXPECT_EQ(open(contents, library, 0), KVQ_OK);
  EXPECT_EQ(open(contents, library), KVQ_INVALID_FILE);
  EXPECT_NE(std::string(kvq_last_error()).find("cannot be loaded"), std::string::npos);
}

/// Opening with one change of the contents; a part of the message must be as given.
template <typename Change>
void expectOpenError(kvq_status status, const char *part, Change change) {
  LibraryContents contents = example();
  change(contents);
  Handle library;
  EXPECT_EQ(open(contents, library), status) << part;
  EXPECT_NE(std::string(kvq_last_error()).find(part), std::string::npos) << kvq_last_error();
}

TEST(Runtime, OpenRefusesLibrariesThatCannotWork) {
  using C = LibraryContents;
  expectOpenError(KVQ_INVALID_FILE, "none for merge", [](C &c) { c.kernels.pop_back(); });
  expectOpenError(KVQ_INVALID_FILE, "'missing'", [](C &c) { c.kernels[1].symbol = "missing"; });
  expectOpenError(KVQ_INVALID_FILE, "one kernel for cpu of the role append",
                  [](C &c) { c.kernels.push_back(c.kernels[0]); });
  expectOpenError(KVQ_INVALID_FILE, "in one object", [](C &c) {
    c.objects.push_back(c.objects[0]);
    c.kernels[2].object = 1;
  });
  expectOpenError(KVQ_INVALID_FILE, "one size of workspace of the kernels for cpu",
                  [](C &c) { c.kernels[2].info.partial_floats += 1; });
  expectOpenError(KVQ_INVALID_FILE, "constant 'mean': expected 16 bytes at 0",
                  [](C &c) { c.formats[0].constants.resize(15); });
  expectOpenError(KVQ_INVALID_FILE, "the method of the library is not valid",
                  [](C &c) { c.formats[0].method = "{}"; });
}

TEST(Runtime, LevelsOfInstructionSets) {
  LibraryContents contents = example();
  Handle library;
  for (LibraryKernel &kernel : contents.kernels)
    kernel.level = "another-machine";
  ASSERT_EQ(open(contents, library), KVQ_OK); // can be queried
  EXPECT_EQ(kvq_supports(library.get(), nullptr, nullptr, 0, nullptr), KVQ_UNSUPPORTED);
  EXPECT_NE(std::string(kvq_last_error()).find("'another-machine'"), std::string::npos);
  // A second set that runs anywhere is used instead.
  const std::vector<LibraryKernel> anywhere = example().kernels;
  contents.kernels.insert(contents.kernels.end(), anywhere.begin(), anywhere.end());
  ASSERT_EQ(open(contents, library), KVQ_OK);
  EXPECT_EQ(kvq_supports(library.get(), nullptr, nullptr, 0, nullptr), KVQ_OK);
  contents.kernels.clear();
  ASSERT_EQ(open(contents, library), KVQ_OK);
  EXPECT_EQ(kvq_supports(library.get(), nullptr, nullptr, 0, nullptr), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "the library has no kernels for the CPU");
}

TEST(Runtime, OpenRefusesDamageAndOtherVersions) {
  std::string bytes;
  ASSERT_EQ(libraryBytes(example(), bytes), "");
  kvq_library *library = nullptr;
  auto openBytes = [&] { return kvq_open_memory(bytes.data(), bytes.size(), nullptr, &library); };
  ASSERT_EQ(openBytes(), KVQ_OK);
  kvq_close(library);
  bytes[8] = 0;
  EXPECT_EQ(openBytes(), KVQ_OTHER_VERSION);
  EXPECT_NE(std::string(kvq_last_error()).find("version 0"), std::string::npos);
  EXPECT_NE(std::string(kvq_last_error()).find("version 1"), std::string::npos);
  bytes[8] = 1, bytes.back() ^= 1;
  EXPECT_EQ(openBytes(), KVQ_INVALID_FILE);
  EXPECT_EQ(library, nullptr);
  EXPECT_EQ(kvq_open("/nonexistent/x.kvqlib", nullptr, &library), KVQ_IO_ERROR);
  EXPECT_NE(std::string(kvq_last_error()).find("/nonexistent/x.kvqlib"), std::string::npos);
  kvq_open_options options = {sizeof options, 2, 0, 0};
  EXPECT_EQ(kvq_open_memory(bytes.data(), bytes.size(), &options, &library), KVQ_INVALID_ARGUMENT);
  options = {sizeof options, 0, 0, 2};
  EXPECT_EQ(kvq_open_memory(bytes.data(), bytes.size(), &options, &library), KVQ_INVALID_ARGUMENT);
  EXPECT_STREQ(kvq_last_error(), "options.target: expected 0 to 1, got 2");
  options = {sizeof options, 0, -1, 0};
  EXPECT_EQ(kvq_open_memory(bytes.data(), bytes.size(), &options, &library), KVQ_INVALID_ARGUMENT);
}

TEST(Runtime, OpenFromAFile) {
  const std::string path = testing::TempDir() + "kvq_runtime.kvqlib";
  ASSERT_EQ(writeLibrary(path, example()), "");
  kvq_library *library = nullptr;
  const kvq_open_options options = {sizeof options, KVQ_ALLOW_HOST_CODE, 1, KVQ_TARGET_CPU};
  ASSERT_EQ(kvq_open(path.c_str(), &options, &library), KVQ_OK) << kvq_last_error();
  const Handle handle(library);
  Scenario scenario;
  ASSERT_EQ(kvq_append(library, &scenario.append), KVQ_OK);
  ASSERT_EQ(kvq_decode(library, &scenario.decode), KVQ_OK);
  scenario.expectResults();
}

TEST(Runtime, LibrariesDoNotMixTheirKernels) {
  // The dynamic linker identifies objects by name, and these objects stay loaded when they are
  // closed.
  for (int round = 0; round < 3; ++round)
    for (auto [path, offset] :
         {std::pair(KVQ_TEST_KERNELS, 0.0f), std::pair(KVQ_TEST_OTHER_KERNELS, 1000.0f)}) {
      Handle library;
      ASSERT_EQ(open(example(path), library), KVQ_OK) << kvq_last_error();
      Scenario scenario;
      ASSERT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
      ASSERT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK);
      scenario.expectResults(offset);
    }
  Handle first, second;
  ASSERT_EQ(open(example(), first), KVQ_OK);
  ASSERT_EQ(open(example(KVQ_TEST_OTHER_KERNELS), second), KVQ_OK);
  Scenario scenario;
  ASSERT_EQ(kvq_append(first.get(), &scenario.append), KVQ_OK);
  ASSERT_EQ(kvq_decode(second.get(), &scenario.decode), KVQ_OK);
  scenario.expectResults(1000);
  ASSERT_EQ(kvq_decode(first.get(), &scenario.decode), KVQ_OK);
  scenario.expectResults();
}

TEST(Runtime, ThreadsShareALibrary) {
  const Handle library = openExample();
  Scenario scenarios[4];
  std::vector<std::thread> threads;
  for (Scenario &scenario : scenarios)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(kvq_append(library.get(), &scenario.append), KVQ_OK);
        EXPECT_EQ(kvq_decode(library.get(), &scenario.decode), KVQ_OK);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (Scenario &scenario : scenarios)
    scenario.expectResults();
}

TEST(Runtime, ErrorsBelongToTheirThread) {
  EXPECT_EQ(kvq_query(nullptr, 0, nullptr), KVQ_INVALID_ARGUMENT);
  EXPECT_STREQ(kvq_last_error(), "library: expected a pointer, got null");
  std::thread([] { EXPECT_STREQ(kvq_last_error(), ""); }).join();
}

TEST(Runtime, StatusNames) {
  EXPECT_STREQ(kvq_status_name(KVQ_OK), "KVQ_OK");
  EXPECT_STREQ(kvq_status_name(KVQ_OTHER_VERSION), "KVQ_OTHER_VERSION");
  EXPECT_STREQ(kvq_status_name(KVQ_INTERNAL_ERROR), "KVQ_INTERNAL_ERROR");
  EXPECT_STREQ(kvq_status_name(KVQ_DEVICE_ERROR), "KVQ_DEVICE_ERROR");
  EXPECT_STREQ(kvq_status_name(KVQ_OTHER_FORMAT), "KVQ_OTHER_FORMAT");
  EXPECT_STREQ(kvq_status_name(10), "unknown status");
  EXPECT_STREQ(kvq_status_name(-1), "unknown status");
  EXPECT_STREQ(kvq_version(), KVQ_VERSION);
}

TEST(Runtime, IsUsableFromC) {
  const Handle library = openExample();
  kvq_geometry geometry = {};
  EXPECT_STREQ(nameFromC(library.get(), &geometry), "KVQ_OK");
  EXPECT_EQ(geometry.key_dim, 16);
  EXPECT_STREQ(nameFromC(nullptr, &geometry), "KVQ_INVALID_ARGUMENT");
}

TEST(ThreadPool, RunsEachItemOnce) {
  for (int threads : {1, 2, 7}) {
    ThreadPool pool(threads);
    for (int64_t items : {0, 1, 2, 6, 7, 8, 1000, 12345}) {
      std::vector<std::atomic<int>> counts(static_cast<size_t>(items));
      pool.run(
          items,
          [](void *task, int64_t item) {
            ++(*static_cast<std::vector<std::atomic<int>> *>(task))[size_t(item)];
          },
          &counts);
      for (const std::atomic<int> &count : counts)
        EXPECT_EQ(count, 1);
    }
  }
}

} // namespace

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults that others reported of libraries and their callers, each as a whole kind, over kernels
// written by hand.
#include "test/unit/RuntimeExample.h"

#include <chrono>

using namespace kvq;
using namespace kvq::test;

namespace {

/// A struct of a caller that knows one member more.
template <typename Struct> struct Later {
  Struct known = {};
  uint64_t more = 0;

  explicit Later(const Struct &given) : known(given) { known.size = sizeof *this; }
};

/// A struct that is read: with a member more of zero it is what it was, with another value it is
/// refused; one that is cut off is refused.
template <typename Struct, typename Call>
void expectMayGrow(const char *name, const Struct &given, Call call) {
  SCOPED_TRACE(name);
  Later<Struct> later(given);
  EXPECT_EQ(call(&later.known), KVQ_OK) << kvq_last_error();
  later.more = uint64_t(1) << 63;
  EXPECT_EQ(call(&later.known), KVQ_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvq_last_error()).find("expected"), std::string::npos);
  later.more = 0, later.known.size = sizeof(size_t);
  EXPECT_EQ(call(&later.known), KVQ_INVALID_ARGUMENT);
}

/// Fault: library and caller disagree on the members of a call's arguments. Structs may grow at
/// their end in a later version; what an earlier one does not know it refuses.
TEST(RuntimeFaults, StructsThatAreReadMayGrow) {
  const Handle library = openExample();
  Scenario scenario;
  kvq_library *const handle = library.get();
  expectMayGrow("append", scenario.append,
                [&](const kvq_token_args *args) { return kvq_append(handle, args); });
  expectMayGrow("plan", scenario.decode,
                [&](const kvq_decode_args *args) { return kvq_plan(handle, args); });
  expectMayGrow("decode", scenario.decode,
                [&](const kvq_decode_args *args) { return kvq_decode(handle, args); });
  size_t bytes = 0;
  expectMayGrow("workspace_size", scenario.decode, [&](const kvq_decode_args *args) {
    return kvq_workspace_size(handle, args, &bytes);
  });
  expectMayGrow("supports", kvq_use(),
                [&](const kvq_use *use) { return kvq_supports(handle, use, nullptr, 0, nullptr); });
  kvq_move_args move = {};
  kvq_page_header header = {};
  move.pool = scenario.append.pool, move.place = scenario.append.place;
  expectMayGrow("export", move,
                [&](const kvq_move_args *args) { return kvq_export(handle, args, &header); });
  expectMayGrow("import", move,
                [&](const kvq_move_args *args) { return kvq_import(handle, args, &header); });
  std::string file;
  ASSERT_EQ(libraryBytes(example(), file), "");
  expectMayGrow("open", kvq_open_options(), [&](const kvq_open_options *options) {
    kvq_library *opened = nullptr;
    const kvq_status status = kvq_open_memory(file.data(), file.size(), options, &opened);
    kvq_close(opened);
    return status;
  });
}

/// The same of structs that are written: members that are not known here are zero, and nothing
/// behind the size that the caller gave is touched.
template <typename Struct, typename Call> void expectKeepsTheRest(const char *name, Call call) {
  SCOPED_TRACE(name);
  struct {
    Later<Struct> later = Later<Struct>(Struct());
    uint64_t behind = 77;
  } memory;
  memory.later.more = 77;
  EXPECT_EQ(call(&memory.later.known), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(memory.later.known.size, sizeof memory.later);
  EXPECT_EQ(memory.later.more, 0u);
  EXPECT_EQ(memory.behind, 77u);
}

TEST(RuntimeFaults, StructsThatAreWrittenMayGrow) {
  const Handle library = openExample();
  kvq_library *const handle = library.get();
  expectKeepsTheRest<kvq_model>("model", [&](kvq_model *m) { return kvq_query_model(handle, m); });
  expectKeepsTheRest<kvq_geometry>("geometry",
                                   [&](kvq_geometry *g) { return kvq_query(handle, 0, g); });
  expectKeepsTheRest<kvq_page_geometry>(
      "page", [&](kvq_page_geometry *page) { return kvq_query_page(handle, 0, 0, page); });
}

/// Fault: a start takes long, and memory for kernels that nobody calls, so that replicas come up
/// slowly. A library of 100 kernels opens and decodes its first step within a second; nothing of it
/// is compiled, and files of the same bytes are the same library.
TEST(RuntimeFaults, ALibraryOfManyKernelsStartsAtOnce) {
  LibraryContents contents = example();
  const std::vector<LibraryKernel> kernels = contents.kernels;
  contents.layers.clear();
  for (uint32_t format = 0; format < 25; ++format) {
    contents.layers.push_back({int32_t(format), 1});
    if (!format)
      continue;
    contents.formats.push_back(contents.formats[0]);
    contents.objects.push_back(contents.objects[0]);
    for (LibraryKernel kernel : kernels) {
      kernel.format = kernel.object = format;
      contents.kernels.push_back(kernel);
    }
  }
  ASSERT_EQ(contents.kernels.size(), 100u);
  std::string bytes;
  ASSERT_EQ(libraryBytes(contents, bytes), "");
  Scenario scenario;
  scenario.append.place.layer = scenario.decode.place.layer = 17;
  const auto start = std::chrono::steady_clock::now();
  const kvq_open_options options = {sizeof options, KVQ_ALLOW_HOST_CODE, 1, KVQ_TARGET_CPU};
  kvq_library *library = nullptr;
  ASSERT_EQ(kvq_open_memory(bytes.data(), bytes.size(), &options, &library), KVQ_OK)
      << kvq_last_error();
  const Handle handle(library);
  ASSERT_EQ(kvq_append(library, &scenario.append), KVQ_OK) << kvq_last_error();
  ASSERT_EQ(kvq_decode(library, &scenario.decode), KVQ_OK) << kvq_last_error();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  scenario.expectResults();
  EXPECT_LT(taken.count(), 1);
}

} // namespace

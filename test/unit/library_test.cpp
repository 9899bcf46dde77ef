// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/format/library.h"

#include "test/support/Reseal.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace kvq;

namespace {

LibraryContents example() {
  LibraryContents contents;
  contents.manifest = R"({"pipeline":"text"})";
  contents.formats = {{R"({"method":0})", std::string(700, '\x11')}, {R"({"method":1})", ""}};
  contents.layers = {{0, 3}, {-1, 0}, {1, 0}, {0, 0}};
  contents.objects = {std::string(4101, '\x22'), "", std::string(64, '\x33')};
  contents.kernels = {
      {KernelRole::append, "cpu", "", "kvq_append", 0, {0, 0}},
      {KernelRole::decode, "cpu", "x86-64-v3", "kvq_decode", 2, {128, 66}, 0, 0, 8, 1},
      {KernelRole::plan, "sm_90a", "cubin", "kvq_plan", 1, {96, 34}, 256, 0x1d800},
  };
  return contents;
}

std::string exampleBytes() {
  std::string bytes;
  EXPECT_EQ(libraryBytes(example(), bytes), "");
  return bytes;
}

std::string parseError(const std::string &bytes) {
  // A heap copy of the exact size: a read behind the end is then seen by AddressSanitizer.
  std::vector<char> copy(bytes.begin(), bytes.end());
  LibraryView view;
  return parseLibrary({copy.data(), copy.size()}, view);
}

std::string text(ByteSpan span) {
  return std::string(static_cast<const char *>(span.data), span.size);
}

TEST(Library, RoundTrip) {
  const LibraryContents contents = example();
  const std::string path = testing::TempDir() + "kvq_round.kvqlib";
  ASSERT_EQ(writeLibrary(path, contents), "");
  FileBytes bytes;
  ASSERT_EQ(FileBytes::read(path, bytes), "");
  EXPECT_EQ(text(bytes.span()), exampleBytes());
  LibraryView view;
  ASSERT_EQ(parseLibrary(bytes.span(), view), "");
  EXPECT_EQ(text(view.manifest), contents.manifest);
  EXPECT_EQ(view.version, kLibraryVersion);
  ASSERT_EQ(view.formats.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(text(view.formats[i].method), contents.formats[i].method);
    EXPECT_EQ(text(view.formats[i].constants), contents.formats[i].constants);
  }
  ASSERT_EQ(view.layers.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(view.layers[i].format, contents.layers[i].format) << i;
    EXPECT_EQ(view.layers[i].constant_layer, contents.layers[i].constant_layer) << i;
  }
  ASSERT_EQ(view.objects.size(), 3u);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(text(view.objects[i]), contents.objects[i]);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(view.formats[0].constants.data) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(view.objects[2].data) % 64, 0u);
  ASSERT_EQ(view.kernels.size(), 3u);
  EXPECT_EQ(view.kernels[1].role, KernelRole::decode);
  EXPECT_EQ(view.kernels[1].target, "cpu");
  EXPECT_EQ(view.kernels[1].level, "x86-64-v3");
  EXPECT_EQ(view.kernels[1].symbol, "kvq_decode");
  EXPECT_EQ(view.kernels[1].object, 2u);
  EXPECT_EQ(view.kernels[1].info.query_floats, 128);
  EXPECT_EQ(view.kernels[1].info.partial_floats, 66);
  EXPECT_EQ(view.kernels[1].threads, 0);
  EXPECT_EQ(view.kernels[1].rows, 8);
  EXPECT_EQ(view.kernels[1].format, 1u);
  EXPECT_EQ(view.kernels[1].shared_bytes, 0);
  EXPECT_EQ(view.kernels[2].role, KernelRole::plan);
  EXPECT_EQ(view.kernels[2].target, "sm_90a");
  EXPECT_EQ(view.kernels[2].level, "cubin");
  EXPECT_EQ(view.kernels[2].object, 1u);
  EXPECT_EQ(view.kernels[2].info.query_floats, 96);
  EXPECT_EQ(view.kernels[2].threads, 256);
  EXPECT_EQ(view.kernels[2].shared_bytes, 0x1d800);
}

TEST(Library, EmptyBlobsAndNoKernelsAreALibrary) {
  std::string bytes;
  LibraryContents contents;
  contents.formats.resize(1), contents.layers.resize(1);
  ASSERT_EQ(libraryBytes(contents, bytes), "");
  EXPECT_EQ(parseError(bytes), "");
}

TEST(Library, NeedsAFormatAndALayer) {
  for (int missing : {0, 1}) {
    LibraryContents contents = example();
    contents.kernels.clear();
    missing ? contents.formats.clear() : contents.layers.clear();
    std::string bytes;
    EXPECT_EQ(libraryBytes(contents, bytes),
              missing ? "expected 1 to 1024 formats in a library, got 0"
                      : "expected 1 to 65536 layers in a library, got 0");
  }
}

TEST(Library, RefusesEveryTruncation) {
  const std::string bytes = exampleBytes();
  for (size_t size = 0; size < bytes.size(); size = size < 1024 ? size + 1 : size + 64)
    EXPECT_NE(parseError(bytes.substr(0, size)), "") << size;
  for (size_t size = 0; size < bytes.size(); size += 4096)
    EXPECT_NE(parseError(bytes.substr(0, size)), "") << size;
  EXPECT_NE(parseError(bytes + std::string(64, '\0')), "");
}

TEST(Library, RefusesEveryChangedByte) {
  const std::string bytes = exampleBytes();
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = char(changed[at] ^ (1 << at % 8));
    EXPECT_NE(parseError(changed), "") << at;
  }
}

TEST(Library, RefusesAnotherVersionAndNamesBoth) {
  for (int version : {0, 7}) {
    std::string bytes = exampleBytes();
    bytes[8] = bytes[12] = char(version);
    EXPECT_TRUE(isOtherVersion({bytes.data(), bytes.size()}));
    const std::string error = parseError(bytes);
    EXPECT_NE(error.find("version 1"), std::string::npos) << error;
    EXPECT_NE(error.find("version " + std::to_string(version)), std::string::npos) << error;
  }
  const std::string bytes = exampleBytes();
  EXPECT_FALSE(isOtherVersion({bytes.data(), bytes.size()}));
  EXPECT_FALSE(isOtherVersion({bytes.data(), 10}));
  EXPECT_FALSE(isOtherVersion({"something else", 14}));
}

/// The file after a change of its bytes, with digests that fit.
template <typename Change> std::string changedFile(Change change) {
  std::string bytes = exampleBytes();
  change(bytes);
  test::reseal(bytes);
  return bytes;
}

constexpr size_t kVersionAt = 8, kKernelsAt = 128 + 8 * 64; ///< header, 8 blobs, then the kernels

/// What a later version may add without locking out this reader.
TEST(Library, ReadsLaterFilesThatAskForThisReader) {
  auto read = [](auto change, LibraryView &view) {
    static std::string bytes;
    bytes = changedFile([&](std::string &b) {
      b[kVersionAt] = 2;
      change(b);
    });
    return parseLibrary({bytes.data(), bytes.size()}, view);
  };
  LibraryView view;
  ASSERT_EQ(read([](std::string &) {}, view), "");
  EXPECT_EQ(view.version, 2u);
  EXPECT_EQ(view.kernels.size(), 3u);
  // A role that only a later version knows: left out if it is flagged optional, refused if not.
  auto role = [](char flags) {
    return [=](std::string &b) { b[kKernelsAt + 192] = 77, b[kKernelsAt + 192 + 4] = flags; };
  };
  ASSERT_EQ(read(role(1), view), "");
  ASSERT_EQ(view.kernels.size(), 2u);
  EXPECT_EQ(view.kernels[1].role, KernelRole::plan);
  EXPECT_EQ(read(role(0), view), "kernel 'kvq_decode': expected a role of 0 to 8, got 77");
  // The last blob becomes one of a new kind; the kernel of object 2 goes with it.
  auto kind = [](char flags) {
    return [=](std::string &b) {
      b[128 + 7 * 64] = 9, b[128 + 7 * 64 + 4] = flags;
      b[kKernelsAt + 192 + 12] = 0;
    };
  };
  ASSERT_EQ(read(kind(1), view), "");
  EXPECT_EQ(view.objects.size(), 2u);
  EXPECT_NE(read(kind(0), view), "");
  // Unused bytes may mean something there.
  EXPECT_EQ(read([](std::string &b) { b[52] = 1, b[128 + 24] = 1, b[kKernelsAt + 188] = 1; }, view),
            "");
}

TEST(Library, TakesTheKnownPartOfLongerEntries) {
  std::string bytes = exampleBytes();
  // Layers of 12 bytes: 4 entries grow by 4, and the padding behind the tables has room for them.
  const size_t layersAt = kKernelsAt + 3 * 192;
  std::string longer;
  for (int i = 0; i < 4; ++i)
    longer += bytes.substr(layersAt + 8 * i, 8) + "abcd";
  ASSERT_EQ(bytes.substr(layersAt + 32, 16), std::string(16, '\0'));
  bytes.replace(layersAt, longer.size(), longer);
  bytes[48] = 12;
  test::reseal(bytes);
  EXPECT_NE(parseError(bytes), ""); // not in a file of version 1
  bytes[kVersionAt] = 2;
  test::reseal(bytes);
  LibraryView view;
  ASSERT_EQ(parseLibrary({bytes.data(), bytes.size()}, view), "");
  ASSERT_EQ(view.layers.size(), 4u);
  EXPECT_EQ(view.layers[0].constant_layer, 3u);
  EXPECT_EQ(view.layers[1].format, -1);
  EXPECT_EQ(view.layers[2].format, 1);
}

TEST(Library, AcceptsNothingUnknownInItsOwnVersion) {
  auto error = [](size_t at, char value) {
    return parseError(changedFile([&](std::string &b) { b[at] = value; }));
  };
  EXPECT_EQ(error(kVersionAt, 1), ""); // as it is
  EXPECT_EQ(error(52, 1), "the header of the library: expected zero in its unused bytes");
  EXPECT_EQ(error(128 + 4, 1), "blob 0 of the library: expected kind 0, got 0 with flags 1");
  EXPECT_EQ(error(128 + 24, 1), "blob 0 of the library: expected zero in its unused bytes");
  EXPECT_EQ(error(128 + 64, 9), "blob 1 of the library: expected kind 1, got 9 with flags 0");
  EXPECT_EQ(error(128 + 64 + 8, 1), "blob 1 of the library: expected bytes from 1344 inside the "
                                    "file of 6400 bytes, got 12 bytes from 1281");
  EXPECT_EQ(error(kKernelsAt + 4, 1),
            "kernel 0 of the library: expected zero bytes behind texts and numbers");
  EXPECT_EQ(error(kKernelsAt + 188, 1),
            "kernel 0 of the library: expected zero bytes behind texts and numbers");
  EXPECT_EQ(error(kKernelsAt + 8, 2),
            "kernel 'kvq_append': expected one of 2 formats, got number 2");
  EXPECT_EQ(error(kKernelsAt + 3 * 192, 2),
            "layer 0 of the model: expected one of 2 formats, or -1, got 2");
  EXPECT_EQ(error(kKernelsAt + 3 * 192 + 12, 1),
            "layer 1 of the model: expected a layer of the constants below 1, got 1");
  EXPECT_EQ(error(40, 72), "the header of the library contradicts itself: 2 formats, 4 layers, 8 "
                           "blobs and 3 kernels in 6400 bytes");
}

TEST(Library, WriterRefusesLayersThatTheReaderWould) {
  auto error = [](LibraryLayer layer) {
    LibraryContents contents = example();
    contents.layers[2] = layer;
    std::string bytes;
    return libraryBytes(contents, bytes);
  };
  EXPECT_EQ(error({1, 65535}), "");
  EXPECT_EQ(error({1, 65536}),
            "layer 2 of the model: expected a layer of the constants below 65536, got 65536");
  EXPECT_EQ(error({2, 0}), "layer 2 of the model: expected one of 2 formats, or -1, got 2");
  EXPECT_EQ(error({-2, 0}), "layer 2 of the model: expected one of 2 formats, or -1, got -2");
  EXPECT_EQ(error({-1, 1}),
            "layer 2 of the model: expected a layer of the constants below 1, got 1");
}

TEST(Library, WriterRefusesWhatTheReaderWould) {
  size_t which = 0;
  auto refused = [&](auto change) {
    std::string bytes = "untouched";
    LibraryContents contents = example();
    change(contents.kernels[which]);
    return !libraryBytes(contents, bytes).empty() && bytes == "untouched";
  };
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.object = 3; }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.format = 2; }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.rows = 1; }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.symbol = ""; }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.symbol = std::string(64, 'a'); }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.symbol = std::string("a\0b", 3); }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.target = std::string(16, 'a'); }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.level = std::string(64, 'a'); }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.role = KernelRole(4); }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.info.partial_floats = -1; }));
  EXPECT_FALSE(refused([](LibraryKernel &k) { k.symbol = std::string(63, 'a'); }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.role = KernelRole::plan; }));
  EXPECT_FALSE(refused([](LibraryKernel &k) { k.role = KernelRole::merge; }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.threads = 32; }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.shared_bytes = 1; }));
  which = 1;
  for (int32_t rows : {-1, 0, 4097})
    EXPECT_TRUE(refused([&](LibraryKernel &k) { k.rows = rows; })) << rows;
  EXPECT_FALSE(refused([](LibraryKernel &k) { k.role = KernelRole::merge, k.rows = 0; }));
  which = 2;
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.role = KernelRole(kKernelRoles); }));
  EXPECT_TRUE(refused([](LibraryKernel &k) { k.role = KernelRole::merge; }));
  for (int32_t threads : {0, -32, 16, 33, 1056})
    EXPECT_TRUE(refused([&](LibraryKernel &k) { k.threads = threads; })) << threads;
  for (int32_t bytes : {-1, (1 << 18) + 1})
    EXPECT_TRUE(refused([&](LibraryKernel &k) { k.shared_bytes = bytes; })) << bytes;
  EXPECT_FALSE(refused([](LibraryKernel &k) { k.threads = 1024, k.shared_bytes = 1 << 18; }));
}

} // namespace

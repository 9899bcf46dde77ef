// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Damaged libraries, through the C interface: each is refused with a status and a message, and no
// damage is a crash.
#include "kvq/runtime.h"

#include "runtime/format/file.h"
#include "runtime/format/library_fields.h"
#include "runtime/format/method.h"
#include "test/support/Reseal.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace kvq;

namespace {

CacheMethod method(int layers) {
  CacheMethod method;
  method.name = "example";
  method.key.record.dim = 64, method.value.record.dim = 32;
  method.q_heads = 4, method.kv_heads = 2, method.layers = layers;
  method.attention.scale = 0.25f;
  method.constants = {{"mean", {layers, 2, 64}, 0}};
  return method;
}

/// A library of two formats with a skipped layer, kernels for a CPU and a GPU, and an object of
/// several times 4 KiB.
std::string exampleBytes() {
  LibraryContents contents;
  contents.manifest = "{}";
  for (int layers : {2, 1})
    contents.formats.push_back(
        {methodText(method(layers)), std::string(size_t(layers) * 2 * 64 * 4, '\1')});
  contents.layers = {{0, 0}, {-1, 0}, {1, 0}, {0, 1}};
  FileBytes object;
  EXPECT_EQ(FileBytes::read(KVQ_TEST_ABI "/version_0.kvqlib", object), "");
  const ByteSpan span = object.span();
  contents.objects = {std::string(static_cast<const char *>(span.data), span.size), "module"};
  for (uint32_t format : {0, 1})
    for (KernelRole role : {KernelRole::append, KernelRole::prepare, KernelRole::decode,
                            format ? KernelRole::plan : KernelRole::merge}) {
      LibraryKernel kernel;
      kernel.role = role, kernel.object = kernel.format = format;
      kernel.symbol = std::string("kvq_") + roleName(role);
      kernel.rows = role == KernelRole::decode ? 2 : 0;
      if (format)
        kernel.target = "sm_90a", kernel.level = "cubin", kernel.threads = 128;
      contents.kernels.push_back(kernel);
    }
  std::string bytes;
  EXPECT_EQ(libraryBytes(contents, bytes), "");
  return bytes;
}

/// Opens a copy of the exact size, so that a read behind the end is seen; the status must fit the
/// handle and the message.
kvq_status open(const char *data, size_t size) {
  const std::unique_ptr<char[]> copy(new char[size]);
  std::memcpy(copy.get(), data, size);
  kvq_library *library = nullptr;
  const kvq_status status = kvq_open_memory(copy.get(), size, nullptr, &library);
  EXPECT_EQ(library != nullptr, status == KVQ_OK);
  EXPECT_TRUE(status == KVQ_OK || *kvq_last_error());
  kvq_close(library);
  return status;
}

TEST(LibraryDamage, TheWholeFileOpens) {
  const std::string bytes = exampleBytes();
  EXPECT_EQ(open(bytes.data(), bytes.size()), KVQ_OK) << kvq_last_error();
}

TEST(LibraryDamage, TruncationAtEvery4KiB) {
  const std::string bytes = exampleBytes();
  ASSERT_GT(bytes.size(), size_t(8 * 4096));
  for (size_t size = 0; size < bytes.size(); size += 4096)
    EXPECT_EQ(open(bytes.data(), size), KVQ_INVALID_FILE) << size;
  EXPECT_EQ(open(bytes.data(), bytes.size() - 1), KVQ_INVALID_FILE);
}

/// Bytes of header and tables.
size_t tablesEnd(const std::string &bytes) {
  library_file::FieldReader read(reinterpret_cast<const uint8_t *>(bytes.data()) + 24);
  const size_t blobs = read.u32(), kernels = read.u32();
  read.u32();
  return library_file::kHeaderBytes + blobs * library_file::kBlobBytes +
         kernels * library_file::kKernelBytes + read.u32() * library_file::kLayerBytes;
}

TEST(LibraryDamage, EveryByteOfHeaderAndTables) {
  std::string bytes = exampleBytes();
  const size_t end = tablesEnd(bytes);
  ASSERT_EQ(end, size_t(128 + 7 * 64 + 8 * 192 + 4 * 8));
  for (size_t at = 0; at < end; ++at) {
    const char before = bytes[at];
    bytes[at] = char(~before);
    const kvq_status status = open(bytes.data(), bytes.size());
    // Of the bytes of the versions, some make another version of it.
    EXPECT_TRUE(status == KVQ_INVALID_FILE || (status == KVQ_OTHER_VERSION && at >= 8 && at < 16))
        << at << ": " << kvq_last_error();
    bytes[at] = before;
  }
}

/// With digests that fit, a file made to deceive: a status in any case.
TEST(LibraryDamage, EveryByteOfHeaderAndTablesBehindGoodDigests) {
  const std::string bytes = exampleBytes();
  int opened = 0;
  for (size_t at = 0; at < tablesEnd(bytes); ++at)
    for (int bit : {0, 3, 7}) {
      std::string changed = bytes;
      changed[at] = char(changed[at] ^ (1 << bit));
      test::reseal(changed);
      opened += open(changed.data(), changed.size()) == KVQ_OK;
    }
  // Symbols, levels and numbers may be anything, and digests are made anew: some open.
  EXPECT_GT(opened, 0);
}

TEST(LibraryDamage, RandomBytesBehindGoodDigests) {
  std::string bytes = exampleBytes();
  const size_t end = tablesEnd(bytes);
  bytes.resize(16384);
  uint64_t state = 1;
  auto random = [&] { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33; };
  for (int round = 0; round < 2000; ++round) {
    std::string changed = bytes;
    for (uint64_t count = random() % 8 + 1; count; --count)
      changed[16 + random() % (end - 16)] = char(random());
    test::reseal(changed);
    open(changed.data(), changed.size());
  }
}

} // namespace

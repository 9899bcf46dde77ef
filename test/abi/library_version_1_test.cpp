// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// data/version_1.kvqlib, made from data/tiny.mlir for x86-64: it gives the bits that it gave. A
// file in data/ is never made anew once it was released: one of another version is added.
#include "kvq/runtime.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

constexpr int64_t kDim = 32, kTokens = 40, kPage = 16, kPages = 3;

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char[], Free>;

/// Zeros at a multiple of 128.
Memory memory(size_t bytes) {
  bytes = (bytes + 127) / 128 * 128;
  char *data = static_cast<char *>(std::aligned_alloc(128, bytes));
  std::memset(data, 0, bytes);
  return Memory(data);
}

/// Rows of bf16 numbers between -2 and 2 with three bits of mantissa: exact in any arithmetic.
Memory rows(int64_t count, uint32_t seed) {
  Memory out = memory(size_t(count * kDim) * 2);
  for (int64_t i = 0; i < count * kDim; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const uint16_t bits = uint16_t((seed >> 16 & 0x8000) | (0x3e80 + (seed >> 12 & 0x170)));
    std::memcpy(out.get() + 2 * i, &bits, 2);
  }
  return out;
}

uint64_t digest(const void *data, size_t bytes) { // FNV-1a
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<const uint8_t *>(data)[i]) * 0x100000001b3u;
  return hash;
}

class Version1 : public testing::Test {
protected:
  void SetUp() override {
    const kvq_open_options options = {sizeof options, KVQ_ALLOW_HOST_CODE, 1, KVQ_TARGET_CPU};
    ASSERT_EQ(kvq_open(KVQ_TEST_ABI "/version_1.kvqlib", &options, &library), KVQ_OK)
        << kvq_last_error();
  }
  void TearDown() override { kvq_close(library); }

  kvq_library *library = nullptr;
};

TEST_F(Version1, TellsWhatItIs) {
  kvq_model model = {};
  model.size = sizeof model;
  ASSERT_EQ(kvq_query_model(library, &model), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(model.layers, 1);
  EXPECT_EQ(model.formats, 1);
  kvq_geometry geometry = {};
  geometry.size = sizeof geometry;
  ASSERT_EQ(kvq_query(library, 0, &geometry), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(geometry.q_heads, 1);
  EXPECT_EQ(geometry.kv_heads, 1);
  EXPECT_EQ(geometry.key_dim, kDim);
  EXPECT_EQ(geometry.key_bits, 2);
  EXPECT_EQ(geometry.page_tokens, kPage);
  kvq_page_geometry page = {};
  page.size = sizeof page;
  ASSERT_EQ(kvq_query_page(library, 0, 0, &page), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(page.record_bytes, 320);
  EXPECT_EQ(page.head_stride, 384);
}

TEST_F(Version1, GivesTheBitsThatItGave) {
  constexpr int64_t stride = 384;
  const Memory keys = rows(kTokens, 1), values = rows(kTokens, 2), query = rows(1, 3);
  const Memory pool = memory(kPages * stride), out = memory(2 * kDim);
  std::vector<int64_t> slots;
  const int32_t pages[kPages] = {2, 0, 1}, length = kTokens;
  for (int64_t t = 0; t < kTokens; ++t)
    slots.push_back(pages[t / kPage] * kPage + t % kPage);

  kvq_token_args append = {};
  append.size = sizeof append;
  append.k = keys.get(), append.v = values.get();
  append.k_token_stride = append.k_head_stride = 2 * kDim;
  append.v_token_stride = append.v_head_stride = 2 * kDim;
  append.slots = slots.data(), append.tokens = kTokens;
  append.pool = {pool.get(), stride, stride, kPage};
  ASSERT_EQ(kvq_append(library, &append), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(digest(pool.get(), kPages * stride), 13186782884901894413u);

  float lse = 0;
  kvq_decode_args decode = {};
  decode.size = sizeof decode;
  decode.q = query.get(), decode.q_token_stride = decode.q_head_stride = 2 * kDim;
  decode.out = out.get(), decode.out_token_stride = decode.out_head_stride = 2 * kDim;
  decode.lse = &lse, decode.lse_token_stride = decode.lse_head_stride = 4;
  decode.pool = append.pool;
  decode.table.ids = pages, decode.table.columns = kPages;
  decode.lengths = &length, decode.batch = 1, decode.max_length = kTokens;
  size_t bytes = 0;
  ASSERT_EQ(kvq_workspace_size(library, &decode, &bytes), KVQ_OK) << kvq_last_error();
  const Memory workspace = memory(bytes);
  ASSERT_EQ(kvq_workspace_init(library, workspace.get(), bytes, nullptr), KVQ_OK);
  decode.workspace = workspace.get(), decode.workspace_bytes = bytes;
  ASSERT_EQ(kvq_decode(library, &decode), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(digest(out.get(), 2 * kDim), 18446478271055181095u);
  uint32_t bits = 0;
  std::memcpy(&bits, &lse, sizeof bits);
  EXPECT_EQ(bits, 1085078234u) << lse;
}

} // namespace

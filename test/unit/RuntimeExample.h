// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A library whose kernels are written by hand (runtime_kernels.c), a cache, and calls over both.
#pragma once

#include "kvq/runtime.h"

#include "runtime/format/library.h"
#include "runtime/format/method.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

namespace kvq::test {

inline constexpr int64_t kKeyDim = 16, kValueDim = 8, kHeads = 2, kRatio = 2, kLayers = 2;
inline constexpr float kConstants[kLayers * kHeads] = {0.25f, 0.5f, 1, 2};

inline std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline CacheMethod exampleMethod() {
  CacheMethod method;
  method.name = "example";
  method.key.record.dim = int(kKeyDim), method.key.record.bits = 8;
  method.value.record.dim = int(kValueDim), method.value.record.bits = 4;
  method.key.rows = method.value.rows = method.attention.rows = ElementType::f32;
  method.q_heads = int(kHeads * kRatio), method.kv_heads = int(kHeads),
  method.layers = int(kLayers);
  method.page = 32;
  method.attention.scale = 0.5f;
  method.constants = {{"mean", {kLayers, kHeads}, 0}};
  return method;
}

inline LibraryContents example(const std::string &kernels = KVQ_TEST_KERNELS) {
  LibraryContents contents;
  contents.manifest = R"({"pipeline":"example"})";
  contents.formats = {{methodText(exampleMethod()),
                       {reinterpret_cast<const char *>(kConstants), sizeof kConstants}}};
  contents.layers = {{0, 0}, {0, 1}};
  contents.objects = {readAll(kernels)};
  const char *const symbols[] = {"kvq_append", "kvq_prepare", "kvq_decode", "kvq_merge"};
  for (uint32_t role = 0; role < 4; ++role)
    contents.kernels.push_back({KernelRole(role),
                                "cpu",
                                "",
                                symbols[role],
                                0,
                                {kRatio, 2},
                                0,
                                0,
                                role == 0 ? 0 : int32_t(kRatio)});
  return contents;
}

struct Close {
  void operator()(kvq_library *library) const { kvq_close(library); }
};
using Handle = std::unique_ptr<kvq_library, Close>;

inline kvq_status open(const LibraryContents &contents, Handle &out,
                       uint32_t flags = KVQ_ALLOW_HOST_CODE, int threads = 3) {
  std::string bytes;
  EXPECT_EQ(libraryBytes(contents, bytes), "");
  const kvq_open_options options = {sizeof options, flags, threads, KVQ_TARGET_CPU};
  kvq_library *library = nullptr;
  const kvq_status status = kvq_open_memory(bytes.data(), bytes.size(), &options, &library);
  EXPECT_EQ(library != nullptr, status == KVQ_OK);
  out.reset(library);
  return status;
}

inline Handle openExample() {
  Handle library;
  EXPECT_EQ(open(example(), library), KVQ_OK) << kvq_last_error();
  return library;
}

/// Memory at a multiple of 128, filled with bytes that are no good number.
struct Memory {
  explicit Memory(size_t bytes) : bytes(bytes) {
    data = static_cast<char *>(std::aligned_alloc(128, (bytes + 127) / 128 * 128));
    std::memset(data, 0xff, bytes);
  }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  ~Memory() { std::free(data); }
  float &at(int64_t offset) { return *reinterpret_cast<float *>(data + offset); }

  size_t bytes;
  char *data;
};

/// A cache of `heads` heads with rows at odd strides, and a decode over three sequences.
struct Scenario {
  static constexpr int64_t page = 32, pages = 4, tokens = 70, batch = 3;
  int64_t heads, first, layer = 1;
  int64_t headStride = 4096, pageStride; ///< above what a record needs
  int64_t kStride, vStride, qStride, outStride;
  std::vector<int64_t> slots;
  std::vector<int32_t> table = {2, 0, 3, -7}, lengths = {70, 0, 33};
  Memory k, v, pool, q, out, lse, workspace;
  kvq_token_args append = {};
  kvq_decode_args decode = {};

  explicit Scenario(int64_t first = 0, int64_t heads = kHeads)
      : heads(heads), first(first), pageStride(heads * headStride + 128),
        kStride(heads * kKeyDim * 4 + 16), vStride(heads * (kValueDim * 4 + 16)),
        qStride(heads * kRatio * kKeyDim * 4 + 32), outStride(heads * kRatio * kValueDim * 4 + 48),
        k(size_t(tokens * kStride)), v(size_t(tokens * vStride)), pool(size_t(pages * pageStride)),
        q(size_t(batch * qStride)), out(size_t(batch * outStride)),
        lse(size_t(batch * heads * kRatio * 4)), workspace(1 << 16) {
    fill();
    arguments();
  }

  float key(int64_t t, int64_t h, int64_t d) const { return float((t * 3 + h * 5 + d) % 7) - 3; }
  float value(int64_t t, int64_t h, int64_t d) const { return float((t + h * 2 + d) % 5) - 1; }
  float query(int64_t b, int64_t h, int64_t d) const { return float((b + h + d) % 3) - 1; }

  void fill() {
    for (int64_t t = 0; t < tokens; ++t) {
      slots.push_back(table[size_t(t / page)] * page + t % page);
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t d = 0; d < kKeyDim; ++d)
          k.at(t * kStride + (h * kKeyDim + d) * 4) = key(t, first + h, d);
        for (int64_t d = 0; d < kValueDim; ++d)
          v.at(t * vStride + h * (kValueDim * 4 + 16) + d * 4) = value(t, first + h, d);
      }
    }
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads * kRatio; ++h)
        for (int64_t d = 0; d < kKeyDim; ++d)
          q.at(b * qStride + (h * kKeyDim + d) * 4) = query(b, first * kRatio + h, d);
  }

  void arguments() {
    append.size = sizeof append;
    append.k = k.data, append.v = v.data;
    append.k_token_stride = kStride, append.k_head_stride = kKeyDim * 4;
    append.v_token_stride = vStride, append.v_head_stride = kValueDim * 4 + 16;
    append.slots = slots.data(), append.tokens = tokens;
    append.pool = {pool.data, pageStride, headStride, page};
    append.place = {layer, first, heads};
    decode.size = sizeof decode;
    decode.q = q.data, decode.q_token_stride = qStride, decode.q_head_stride = kKeyDim * 4;
    decode.out = out.data, decode.out_token_stride = outStride,
    decode.out_head_stride = kValueDim * 4;
    decode.lse = &lse.at(0), decode.lse_token_stride = heads * kRatio * 4,
    decode.lse_head_stride = 4;
    decode.pool = {pool.data, pageStride, headStride, page};
    decode.table = {table.data(), nullptr, 0, int64_t(table.size())};
    decode.lengths = lengths.data(), decode.batch = batch, decode.max_length = 100;
    decode.split_tokens = 16;
    decode.place = {layer, first, heads};
    decode.workspace = workspace.data, decode.workspace_bytes = workspace.bytes;
  }

  /// Sum over the tokens of a sequence of what the kernels store.
  float keySum(int64_t length, int64_t h) const {
    float sum = 0;
    for (int64_t t = 0; t < length; ++t) {
      for (int64_t d = 0; d < kKeyDim; ++d)
        sum += key(t, first + h, d);
      sum -= kConstants[layer * kHeads + first + h];
    }
    return sum;
  }
  float valueSum(int64_t length, int64_t h) const {
    float sum = 0;
    for (int64_t t = 0; t < length; ++t)
      for (int64_t d = 0; d < kValueDim; ++d)
        sum += value(t, first + h, d);
    return sum;
  }

  void expectResults(float offset = 0, float scale = 0.5f) {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t j = 0; j < heads * kRatio; ++j) {
        const int64_t h = j / kRatio, length = lengths[size_t(b)];
        float logit = 0;
        for (int64_t d = 0; d < kKeyDim; ++d)
          logit += scale * query(b, first * kRatio + j, d);
        for (int64_t d = 0; d < kValueDim; ++d) {
          const float row = logit * keySum(length, h) + valueSum(length, h) + float(d) + offset;
          EXPECT_EQ(out.at(b * outStride + (j * kValueDim + d) * 4), length ? row : 0)
              << "sequence " << b << " head " << j << " channel " << d;
        }
        EXPECT_EQ(lse.at((b * heads * kRatio + j) * 4), length ? keySum(length, h) : -INFINITY);
      }
  }
};

} // namespace kvq::test

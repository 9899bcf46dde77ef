// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A library with GPU kernels, and calls of it. Addresses of device memory are numbers here: a
// runtime that reads one crashes.
#pragma once

#include "kvq/runtime.h"

#include "runtime/format/library.h"
#include "runtime/format/method.h"

#include <gtest/gtest.h>

#include <memory>

namespace kvq::test {

inline constexpr float kConstants[] = {0.25f, 0.5f, 1, 2};

inline CacheMethod exampleMethod() {
  CacheMethod method;
  method.name = "example";
  method.key.record.dim = 128, method.value.record.dim = 64;
  method.key.rows = method.value.rows = method.attention.rows = ElementType::bf16;
  method.q_heads = 4, method.kv_heads = 2, method.layers = 2;
  method.attention.scale = 0.5f;
  method.constants = {{"mean", {2, 2}, 0}};
  return method;
}

/// Adds a module: append in blocks of 4 warps, prepare of 2, decode of 8.
inline void addModule(LibraryContents &contents, const std::string &target,
                      const std::string &level) {
  const uint32_t object = uint32_t(contents.objects.size());
  contents.objects.push_back(target + " " + level);
  auto add = [&](KernelRole role, int32_t threads, int32_t shared) {
    const bool rows = role == KernelRole::prepare || role == KernelRole::decode;
    contents.kernels.push_back(
        {role, target, level, std::string("kvq_") + roleName(role), object,
         role == KernelRole::append ? WorkspaceFloats{} : WorkspaceFloats{36, 10}, threads, shared,
         rows ? 2 : 0});
  };
  add(KernelRole::append, 128, 0);
  add(KernelRole::plan, 256, 64);
  add(KernelRole::prepare, 64, 1024);
  add(KernelRole::decode, 256, 65536);
}

inline LibraryContents emptyLibrary() {
  LibraryContents contents;
  contents.manifest = "{}";
  contents.formats = {{methodText(exampleMethod()),
                       {reinterpret_cast<const char *>(kConstants), sizeof kConstants}}};
  contents.layers = {{0, 0}, {0, 1}};
  return contents;
}

inline LibraryContents example() {
  LibraryContents contents = emptyLibrary();
  addModule(contents, "sm_90a", "cubin");
  return contents;
}

struct Close {
  void operator()(kvq_library *library) const { kvq_close(library); }
};
using Handle = std::unique_ptr<kvq_library, Close>;

inline kvq_status open(const LibraryContents &contents, Handle &out,
                       kvq_target target = KVQ_TARGET_CUDA) {
  std::string bytes;
  EXPECT_EQ(libraryBytes(contents, bytes), "");
  kvq_open_options options = {};
  options.size = sizeof options, options.target = target;
  kvq_library *library = nullptr;
  const kvq_status status = kvq_open_memory(bytes.data(), bytes.size(), &options, &library);
  EXPECT_EQ(library != nullptr, status == KVQ_OK);
  out.reset(library);
  return status;
}

inline Handle openExample(const LibraryContents &contents = example()) {
  Handle library;
  EXPECT_EQ(open(contents, library), KVQ_OK) << kvq_last_error();
  return library;
}

inline constexpr uintptr_t kWorkspace = 0x10000040; ///< of decodeArgs

template <typename T = void> T *address(uintptr_t number) { return reinterpret_cast<T *>(number); }

inline kvq_token_args appendArgs(int64_t tokens) {
  kvq_token_args args = {};
  args.size = sizeof args;
  args.k = address(0x1000), args.v = address(0x2000);
  args.k_token_stride = 512, args.k_head_stride = 256;
  args.v_token_stride = 272, args.v_head_stride = 128;
  args.slots = address<int64_t>(0x3008), args.tokens = tokens;
  args.pool = {address(0x4000), 1 << 20, 1 << 19, 64};
  args.place.layer = 1;
  return args;
}

inline kvq_decode_args decodeArgs(int64_t batch, int64_t maxLength = 1000) {
  kvq_decode_args args = {};
  args.size = sizeof args;
  args.q = address(0x1000), args.q_token_stride = 1024, args.q_head_stride = 256;
  args.out = address(0x2000), args.out_token_stride = 512, args.out_head_stride = 128;
  args.lse = address<float>(0x3004), args.lse_token_stride = 16, args.lse_head_stride = 4;
  args.pool = {address(0x4000), 1 << 20, 1 << 19, 64};
  args.table = {address<int32_t>(0x5004), nullptr, 64, 16};
  args.lengths = address<int32_t>(0x6004), args.batch = batch, args.max_length = maxLength;
  args.place.layer = 1;
  args.workspace = address(kWorkspace), args.workspace_bytes = size_t(1) << 40;
  return args;
}

} // namespace kvq::test

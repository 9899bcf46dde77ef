// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C interface for CUDA devices over a driver that only writes down what it is asked. Addresses
// of device memory are numbers here: a runtime that reads one crashes.
#include "kvq/runtime.h"

#include "runtime/format/library.h"
#include "runtime/format/method.h"
#include "test/unit/CountAllocations.h"
#include "test/unit/FakeDriver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <thread>

using namespace kvq;
using kvq::test::FakeDriver;
using kvq::test::Launch;

namespace {

constexpr float kConstants[] = {0.25f, 0.5f, 1, 2};

CacheMethod exampleMethod() {
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
void addModule(LibraryContents &contents, const std::string &target, const std::string &level) {
  const uint32_t object = uint32_t(contents.objects.size());
  contents.objects.push_back(target + " " + level);
  auto add = [&](KernelRole role, int32_t threads, int32_t shared) {
    const kvq_cpu_kernel_info info = {36, 10};
    contents.kernels.push_back({role, target, level, std::string("kvq_") + roleName(role), object,
                                role == KernelRole::append ? kvq_cpu_kernel_info{0, 0} : info,
                                threads, shared});
  };
  add(KernelRole::append, 128, 0);
  add(KernelRole::plan, 256, 64);
  add(KernelRole::prepare, 64, 1024);
  add(KernelRole::decode, 256, 65536);
}

LibraryContents emptyLibrary() {
  LibraryContents contents;
  contents.method = methodText(exampleMethod());
  contents.manifest = "{}";
  contents.constants.assign(reinterpret_cast<const char *>(kConstants), sizeof kConstants);
  return contents;
}

LibraryContents example() {
  LibraryContents contents = emptyLibrary();
  addModule(contents, "sm_90a", "cubin");
  return contents;
}

struct Close {
  void operator()(kvq_library *library) const { kvq_close(library); }
};
using Handle = std::unique_ptr<kvq_library, Close>;

kvq_status open(const LibraryContents &contents, Handle &out, kvq_target target = KVQ_TARGET_CUDA) {
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

Handle openExample(const LibraryContents &contents = example()) {
  Handle library;
  EXPECT_EQ(open(contents, library), KVQ_OK) << kvq_last_error();
  return library;
}

template <typename T = void> T *address(uintptr_t number) { return reinterpret_cast<T *>(number); }

kvq_append_args appendArgs(int64_t tokens) {
  kvq_append_args args = {};
  args.size = sizeof args;
  args.k = address(0x1000), args.v = address(0x2000);
  args.k_token_stride = 512, args.k_head_stride = 256;
  args.v_token_stride = 272, args.v_head_stride = 128;
  args.slots = address<int64_t>(0x3008), args.tokens = tokens;
  args.pool = address(0x4000), args.page_stride = 1 << 20, args.head_stride = 1 << 19;
  args.page_tokens = 64;
  args.layer = 1;
  return args;
}

kvq_decode_args decodeArgs(int64_t batch, int64_t maxLength = 1000) {
  kvq_decode_args args = {};
  args.size = sizeof args;
  args.q = address(0x1000), args.q_seq_stride = 1024, args.q_head_stride = 256;
  args.out = address(0x2000), args.out_seq_stride = 512, args.out_head_stride = 128;
  args.lse = address<float>(0x3004), args.lse_seq_stride = 16, args.lse_head_stride = 4;
  args.pool = address(0x4000), args.page_stride = 1 << 20, args.head_stride = 1 << 19;
  args.page_tokens = 64;
  args.block_table = address<int32_t>(0x5004), args.block_table_stride = 64;
  args.block_table_columns = 16;
  args.lengths = address<int32_t>(0x6004), args.batch = batch, args.max_length = maxLength;
  args.layer = 1;
  args.workspace = address(0x10000040), args.workspace_bytes = size_t(1) << 40;
  return args;
}

/// Offset of a pointer in the workspace of decodeArgs.
int64_t offset(const void *pointer) {
  return int64_t(reinterpret_cast<uintptr_t>(pointer)) - 0x10000040;
}

size_t workspaceBytes(kvq_library *library, const kvq_decode_args &args) {
  size_t bytes = 0;
  EXPECT_EQ(kvq_workspace_size(library, &args, &bytes), KVQ_OK) << kvq_last_error();
  return bytes;
}

std::vector<std::string> kernelsOf(const FakeDriver &driver) {
  std::vector<std::string> names;
  for (const Launch &launch : driver.launches)
    names.push_back(launch.kernel);
  return names;
}

TEST(CudaRuntime, AppendRunsAWarpForEachTokenAndHead) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_append_args args = appendArgs(7);
  args.stream = address(0x77);
  ASSERT_EQ(kvq_append(library.get(), &args), KVQ_OK) << kvq_last_error();
  ASSERT_EQ(kernelsOf(driver), std::vector<std::string>{"kvq_append"});
  const Launch &launch = driver.launches[0];
  EXPECT_EQ(launch.grid, 4u); // 14 rows by blocks of 4 warps
  EXPECT_EQ(launch.block, 128u);
  EXPECT_EQ(launch.sharedBytes, 0u);
  EXPECT_EQ(launch.stream, args.stream);
  EXPECT_FALSE(launch.early);
  const kvq_cpu_append_args &got = launch.append;
  EXPECT_EQ(got.k, args.k);
  EXPECT_EQ(got.v, args.v);
  EXPECT_EQ(got.k_token_stride, 512);
  EXPECT_EQ(got.k_head_stride, 256);
  EXPECT_EQ(got.v_token_stride, 272);
  EXPECT_EQ(got.v_head_stride, 128);
  EXPECT_EQ(got.slots, args.slots);
  EXPECT_EQ(got.pool, args.pool);
  EXPECT_EQ(got.page_stride, 1 << 20);
  EXPECT_EQ(got.head_stride, 1 << 19);
  EXPECT_EQ(got.page_tokens, 64);
  EXPECT_EQ(got.tokens, 7);
  EXPECT_EQ(got.kv_heads, 2);
  EXPECT_EQ(got.layer, 1);
  EXPECT_EQ(got.first_head, 0);
  EXPECT_EQ(std::memcmp(got.constants, kConstants, sizeof kConstants), 0);
}

TEST(CudaRuntime, DecodePassesEveryArgument) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(3);
  args.first_head = 1, args.kv_heads = 1;
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  ASSERT_EQ(kernelsOf(driver), (std::vector<std::string>{"kvq_plan", "kvq_prepare", "kvq_decode"}));
  for (const Launch &launch : driver.launches) {
    const kvq_cpu_decode_args &got = launch.decode.common;
    EXPECT_EQ(launch.stream, nullptr);
    EXPECT_EQ(got.q, args.q);
    EXPECT_EQ(got.q_seq_stride, 1024);
    EXPECT_EQ(got.q_head_stride, 256);
    EXPECT_EQ(got.out, args.out);
    EXPECT_EQ(got.out_seq_stride, 512);
    EXPECT_EQ(got.out_head_stride, 128);
    EXPECT_EQ(got.lse, args.lse);
    EXPECT_EQ(got.lse_seq_stride, 16);
    EXPECT_EQ(got.lse_head_stride, 4);
    EXPECT_EQ(got.pool, args.pool);
    EXPECT_EQ(got.page_stride, 1 << 20);
    EXPECT_EQ(got.head_stride, 1 << 19);
    EXPECT_EQ(got.page_tokens, 64);
    EXPECT_EQ(got.block_table, args.block_table);
    EXPECT_EQ(got.block_table_stride, 64);
    EXPECT_EQ(got.lengths, args.lengths);
    EXPECT_EQ(got.batch, 3);
    EXPECT_EQ(got.kv_heads, 1);
    EXPECT_EQ(got.scale, 0.5f);
    EXPECT_EQ(got.layer, 1);
    EXPECT_EQ(got.first_head, 1);
    EXPECT_EQ(std::memcmp(got.constants, kConstants, sizeof kConstants), 0);
  }
  args.scale = 2;
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK);
  EXPECT_EQ(driver.launches.back().decode.common.scale, 2);
}

TEST(CudaRuntime, BlocksOfTheThreeKernels) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(3);
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  const Launch &plan = driver.launches[0], &prepare = driver.launches[1],
               &decode = driver.launches[2];
  EXPECT_EQ(plan.grid, 1u);
  EXPECT_EQ(plan.block, 256u);
  EXPECT_EQ(plan.sharedBytes, 64u);
  EXPECT_FALSE(plan.early);
  EXPECT_EQ(prepare.grid, 6u); // 3 sequences of 4 query heads by blocks of 2 warps
  EXPECT_EQ(prepare.block, 64u);
  EXPECT_EQ(prepare.sharedBytes, 1024u);
  EXPECT_TRUE(prepare.early);
  EXPECT_EQ(decode.grid, 128u); // of 132 multiprocessors
  EXPECT_EQ(decode.block, 256u);
  EXPECT_EQ(decode.sharedBytes, 118u * 1024); // so that one block fills a multiprocessor
  EXPECT_TRUE(decode.early);
  EXPECT_EQ(driver.sharedLimits["kvq_decode"], 118 * 1024);
}

TEST(CudaRuntime, SharedMemoryOfTheDecodeKernel) {
  // What it needs, if that is more; what there is, if that is less.
  FakeDriver driver;
  LibraryContents contents = example();
  contents.kernels[3].shared_bytes = 200 * 1024;
  kvq_decode_args args = decodeArgs(1);
  ASSERT_EQ(kvq_decode(openExample(contents).get(), &args), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(driver.launches.back().sharedBytes, 200u * 1024);
  driver.maxSharedBytes = 99 * 1024, driver.staticSharedBytes = 1024;
  ASSERT_EQ(kvq_decode(openExample().get(), &args), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(driver.launches.back().sharedBytes, 98u * 1024);
}

struct TeamCase {
  int64_t batch, teamWarps, teams;
  size_t bytes;
};

TEST(CudaRuntime, TeamsFollowTheNumberOfSegments) {
  FakeDriver driver;
  const Handle library = openExample();
  // 1024 warps; segments are 2 * batch. Bytes, in multiples of 128: 144 per segment, 40 per slot
  // (teams + segments), 8 per segment, 4 * (2 * (batch + 1) + 2 * (teams + 1)).
  const TeamCase cases[] = {
      {1, 8, 128, 384 + 5248 + 128 + 1152},
      {64, 8, 128, 18432 + 10240 + 1024 + 1664},
      {65, 4, 256, 18816 + 15488 + 1152 + 2688},
      {128, 4, 256, 36864 + 20480 + 2048 + 3200},
      {256, 2, 512, 73728 + 40960 + 4096 + 6272},
      {512, 1, 1024, 147456 + 81920 + 8192 + 12416},
      {513, 1, 1024, 147840 + 82048 + 8320 + 12416},
      {5000, 1, 1024, 1440000 + 440960 + 80000 + 48256},
  };
  for (const TeamCase &c : cases) {
    SCOPED_TRACE("batch " + std::to_string(c.batch));
    kvq_decode_args args = decodeArgs(c.batch);
    ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
    const kvq_gpu_decode_args &got = driver.launches.back().decode;
    EXPECT_EQ(got.team_warps, c.teamWarps);
    EXPECT_EQ(got.teams, c.teams);
    EXPECT_EQ(got.chunk_units, 1);
    EXPECT_EQ(driver.launches.back().grid, 128u);
    EXPECT_EQ(driver.launches[driver.launches.size() - 2].grid, uint32_t(2 * c.batch));
    EXPECT_EQ(workspaceBytes(library.get(), args), c.bytes);
    args.max_length = INT32_MAX;
    EXPECT_EQ(workspaceBytes(library.get(), args), c.bytes);
  }
}

TEST(CudaRuntime, WorkspaceParts) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(65);
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK);
  const kvq_gpu_decode_args &got = driver.launches[0].decode;
  EXPECT_EQ(offset(got.common.query), 0);
  EXPECT_EQ(offset(got.common.partial), 18816);
  EXPECT_EQ(offset(got.counters), 18816 + 15488);
  EXPECT_EQ(offset(got.plan), 18816 + 15488 + 1152);
}

TEST(CudaRuntime, SplitsOfTheCaller) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(3);
  args.split_tokens = 128; // 8 chunks of 1000 tokens
  EXPECT_EQ(workspaceBytes(library.get(), args), 896u + 1920 + 128 + 8320);
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  kvq_gpu_decode_args got = driver.launches.back().decode;
  EXPECT_EQ(got.chunk_units, 2);
  EXPECT_EQ(got.team_warps, 1);
  EXPECT_EQ(got.teams, 1024);
  EXPECT_EQ(offset(got.plan), 896 + 1920 + 128);
  args.split_tokens = 65536; // no limit but the multiple
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  got = driver.launches.back().decode;
  EXPECT_EQ(got.chunk_units, 1024);
  EXPECT_EQ(offset(got.counters) - offset(got.common.partial), 256); // 6 slots of 40
}

TEST(CudaRuntime, WorkspaceNeverShrinks) {
  FakeDriver driver;
  const Handle library = openExample();
  for (int64_t split : {0, 64, 320}) {
    size_t before = 0;
    for (int64_t batch = 0; batch < 1200; ++batch) {
      kvq_decode_args args = decodeArgs(batch);
      args.split_tokens = split;
      const size_t bytes = workspaceBytes(library.get(), args);
      ASSERT_GE(bytes, before) << batch;
      args.max_length += 700;
      ASSERT_GE(workspaceBytes(library.get(), args), bytes) << batch;
      before = bytes;
    }
  }
}

TEST(CudaRuntime, PlannedDecodeSkipsThePlan) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(3);
  args.flags = KVQ_DECODE_PLANNED;
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(kernelsOf(driver), (std::vector<std::string>{"kvq_prepare", "kvq_decode"}));
}

TEST(CudaRuntime, NothingToDoLaunchesNothing) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_append_args append = {};
  append.size = sizeof append;
  EXPECT_EQ(kvq_append(library.get(), &append), KVQ_OK) << kvq_last_error();
  kvq_decode_args decode = {};
  decode.size = sizeof decode;
  EXPECT_EQ(kvq_decode(library.get(), &decode), KVQ_OK) << kvq_last_error();
  EXPECT_TRUE(driver.launches.empty());
}

TEST(CudaRuntime, CallsOnlyLaunch) {
  FakeDriver driver;
  const Handle library = openExample();
  const kvq_append_args append = appendArgs(7);
  const kvq_decode_args decode = decodeArgs(3);
  workspaceBytes(library.get(), decode); // loads
  const int calls = driver.total(), allocations = test::allocationCount();
  ASSERT_EQ(kvq_append(library.get(), &append), KVQ_OK);
  ASSERT_EQ(kvq_decode(library.get(), &decode), KVQ_OK);
  EXPECT_EQ(test::allocationCount(), allocations);
  // Four launches, and in each call a look at the current context: no allocation, no copy, no wait.
  EXPECT_EQ(driver.total() - calls, 6);
  EXPECT_EQ(driver.calls["cuLaunchKernelEx"], 4);
  EXPECT_EQ(driver.allocations, 1);
}

TEST(CudaRuntime, LoadsOnceAndLate) {
  FakeDriver driver;
  Handle library = openExample();
  EXPECT_EQ(kvq_supports(library.get(), nullptr), KVQ_OK);
  EXPECT_EQ(driver.modules, 0);
  EXPECT_EQ(driver.allocations, 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        const kvq_append_args append = appendArgs(7);
        const kvq_decode_args decode = decodeArgs(3);
        EXPECT_EQ(kvq_append(library.get(), &append), KVQ_OK) << kvq_last_error();
        EXPECT_EQ(kvq_decode(library.get(), &decode), KVQ_OK) << kvq_last_error();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(driver.launches.size(), 8u * 20 * 4);
  EXPECT_EQ(driver.calls["cuModuleLoadDataEx"], 1);
  EXPECT_EQ(driver.calls["cuMemAlloc"], 1);
  // The threads had no context: each call makes the library's current, and undoes it.
  for (const Launch &launch : driver.launches)
    ASSERT_STREQ(static_cast<const char *>(launch.context), "context");
  EXPECT_EQ(driver.calls["cuCtxPushCurrent"], driver.calls["cuCtxPopCurrent"]);
  library.reset();
  EXPECT_EQ(driver.modules, 0);
  EXPECT_EQ(driver.allocations, 0);
}

TEST(CudaRuntime, WithoutACurrentContextItIsDevice0) {
  FakeDriver driver;
  FakeDriver::setCurrent(nullptr);
  Handle library = openExample();
  EXPECT_EQ(driver.retained, 1);
  const kvq_append_args append = appendArgs(7);
  ASSERT_EQ(kvq_append(library.get(), &append), KVQ_OK) << kvq_last_error();
  EXPECT_NE(driver.launches[0].context, nullptr);
  EXPECT_EQ(FakeDriver::current(), nullptr);
  library.reset();
  EXPECT_EQ(driver.retained, 0);
  EXPECT_EQ(driver.modules, 0);
  FakeDriver::setCurrent("other");
  library = openExample();
  EXPECT_EQ(driver.retained, 0);
}

TEST(CudaRuntime, NoConstantsNeedNoMemory) {
  FakeDriver driver;
  LibraryContents contents = example();
  CacheMethod method = exampleMethod();
  method.constants.clear();
  contents.method = methodText(method), contents.constants.clear();
  const kvq_append_args append = appendArgs(7);
  ASSERT_EQ(kvq_append(openExample(contents).get(), &append), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(driver.calls["cuMemAlloc"], 0);
  EXPECT_EQ(driver.launches[0].append.constants, nullptr);
}

/// `change` makes one argument wrong; the message must begin with its name, and nothing runs.
template <typename Change> void expectAppendError(const char *name, Change change) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_append_args args = appendArgs(7);
  change(args);
  EXPECT_EQ(kvq_append(library.get(), &args), KVQ_INVALID_ARGUMENT) << name;
  EXPECT_EQ(std::string(kvq_last_error()).find(std::string(name) + ": expected"), 0u)
      << name << ": " << kvq_last_error();
  EXPECT_EQ(driver.modules, 0);
}

template <typename Change> void expectDecodeError(const char *name, Change change) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(3);
  change(args);
  EXPECT_EQ(kvq_decode(library.get(), &args), KVQ_INVALID_ARGUMENT) << name;
  EXPECT_EQ(std::string(kvq_last_error()).find(std::string(name) + ": expected"), 0u)
      << name << ": " << kvq_last_error();
  EXPECT_EQ(driver.modules, 0);
}

TEST(CudaRuntime, ChecksArguments) {
  using A = kvq_append_args;
  using D = kvq_decode_args;
  expectAppendError("k", [](A &a) { a.k = address(0x1008); });
  expectAppendError("v", [](A &a) { a.v = nullptr; });
  expectAppendError("slots", [](A &a) { a.slots = address<int64_t>(0x3004); });
  expectAppendError("pool", [](A &a) { a.pool = address(0x4040); });
  expectAppendError("k_token_stride", [](A &a) { a.k_token_stride += 8; });
  expectAppendError("page_stride", [](A &a) { a.page_stride = 128; });
  expectAppendError("layer", [](A &a) { a.layer = 2; });
  expectAppendError("tokens", [](A &a) { a.tokens = -1; });
  expectDecodeError("q", [](D &d) { d.q = address(0x1008); });
  expectDecodeError("out", [](D &d) { d.out = nullptr; });
  expectDecodeError("out_seq_stride", [](D &d) { d.out_seq_stride = 0; });
  expectDecodeError("lse", [](D &d) { d.lse = address<float>(0x3002); });
  expectDecodeError("pool", [](D &d) { d.pool = nullptr; });
  expectDecodeError("block_table", [](D &d) { d.block_table = nullptr; });
  expectDecodeError("block_table_stride", [](D &d) { d.block_table_stride = 32; });
  expectDecodeError("lengths", [](D &d) { d.lengths = nullptr; });
  expectDecodeError("batch", [](D &d) { d.batch = -1; });
  expectDecodeError("max_length", [](D &d) { d.max_length = -1; });
  expectDecodeError("split_tokens", [](D &d) { d.split_tokens = 96; });
  expectDecodeError("split_tokens", [](D &d) { d.split_tokens = -64; });
  expectDecodeError("scale", [](D &d) { d.scale = INFINITY; });
  expectDecodeError("flags", [](D &d) { d.flags = 2; });
  expectDecodeError("workspace", [](D &d) { d.workspace = address(0x10000020); });
  expectDecodeError("workspace_bytes", [](D &d) { d.workspace_bytes = 100; });
  expectDecodeError("first_head + kv_heads", [](D &d) { d.first_head = 1, d.kv_heads = 2; });
  expectDecodeError("batch, max_length", [](D &d) {
    d.batch = d.max_length = INT32_MAX, d.split_tokens = 64, d.block_table_stride = 0;
  });
}

TEST(CudaRuntime, WorkspaceMayBeExact) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(3);
  args.workspace_bytes = workspaceBytes(library.get(), args);
  EXPECT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  --args.workspace_bytes;
  EXPECT_EQ(kvq_decode(library.get(), &args), KVQ_INVALID_ARGUMENT);
}

struct ChoiceCase {
  int major, minor;
  const char *image;
};

TEST(CudaRuntime, ChoosesTheNearestModule) {
  FakeDriver driver;
  LibraryContents contents = emptyLibrary();
  addModule(contents, "sm_80", "ptx");
  addModule(contents, "sm_90a", "ptx");
  addModule(contents, "sm_90", "ptx");
  addModule(contents, "sm_90a", "cubin");
  addModule(contents, "sm_86", "cubin");
  addModule(contents, "gfx942", "hsaco");
  const ChoiceCase cases[] = {
      {8, 0, "sm_80 ptx"}, // the cubin is for a later minor number
      {8, 6, "sm_86 cubin"},  {8, 9, "sm_86 cubin"},
      {9, 0, "sm_90a cubin"}, // not its ptx, nor that of sm_90
      {10, 0, "sm_90 ptx"},   // code for sm_90a runs nowhere else
      {12, 1, "sm_90 ptx"},
  };
  for (const ChoiceCase &c : cases) {
    driver.major = c.major, driver.minor = c.minor;
    const kvq_append_args append = appendArgs(1);
    ASSERT_EQ(kvq_append(openExample(contents).get(), &append), KVQ_OK) << kvq_last_error();
    EXPECT_EQ(driver.images.back(), c.image) << c.major << "." << c.minor;
  }
}

TEST(CudaRuntime, EarlyLaunchesNeedCapability9) {
  FakeDriver driver;
  driver.major = 8, driver.multiprocessors = 108;
  LibraryContents contents = emptyLibrary();
  addModule(contents, "sm_80", "cubin");
  const kvq_decode_args args = decodeArgs(3);
  ASSERT_EQ(kvq_decode(openExample(contents).get(), &args), KVQ_OK) << kvq_last_error();
  for (const Launch &launch : driver.launches)
    EXPECT_FALSE(launch.early);
  EXPECT_EQ(driver.launches.back().grid, 64u);
  EXPECT_EQ(driver.launches.back().decode.teams, 64);
}

TEST(CudaRuntime, DeviceWithoutAModuleForIt) {
  FakeDriver driver;
  driver.major = 8;
  LibraryContents contents = example();
  addModule(contents, "sm_90", "ptx");
  Handle library;
  EXPECT_EQ(open(contents, library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "the library has kernels for sm_90a (cubin), sm_90 (ptx), the "
                                 "device is Example GPU, compute capability 8.0");
}

TEST(CudaRuntime, LibraryWithoutGpuKernels) {
  FakeDriver driver;
  LibraryContents contents = emptyLibrary();
  Handle library;
  EXPECT_EQ(open(contents, library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "the library has no kernels for CUDA devices");
  contents.objects = {"no object"};
  for (const char *role : {"append", "prepare", "decode", "merge"}) {
    LibraryKernel kernel;
    kernel.role = KernelRole(contents.kernels.size());
    kernel.symbol = role, kernel.level = "x86-64-v3";
    contents.kernels.push_back(kernel);
  }
  EXPECT_EQ(open(contents, library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(),
               "the library has no kernels for CUDA devices, only for cpu (x86-64-v3)");
  EXPECT_EQ(driver.total(), 0);
}

TEST(CudaRuntime, LibraryWithoutCpuKernels) {
  Handle library;
  ASSERT_EQ(open(example(), library, KVQ_TARGET_CPU), KVQ_OK); // can be queried
  EXPECT_EQ(kvq_supports(library.get(), nullptr), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "the library has no kernels for the CPU, only for sm_90a (cubin)");
  const kvq_append_args args = appendArgs(1);
  EXPECT_EQ(kvq_append(library.get(), &args), KVQ_UNSUPPORTED);
}

TEST(CudaRuntime, NoDriver) {
  cuda::setFindDriver([](const cuda::Driver *&) {
    cuda::Driver driver;
    return cuda::openDriver("libkvq-no-driver.so.1", driver);
  });
  Handle library;
  EXPECT_EQ(open(example(), library), KVQ_UNSUPPORTED);
  EXPECT_EQ(std::string(kvq_last_error()).find("no NVIDIA driver: libkvq-no-driver.so.1: "), 0u)
      << kvq_last_error();
  EXPECT_EQ(std::string(kvq_last_error()).find('\n'), std::string::npos);
  cuda::setFindDriver([](const cuda::Driver *&) {
    cuda::Driver driver;
    return cuda::openDriver("libm.so.6", driver);
  });
  EXPECT_EQ(open(example(), library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(
      kvq_last_error(),
      "the NVIDIA driver is too old: libm.so.6 has no cuInit, expected that of CUDA 11.8 or later");
  cuda::setFindDriver(nullptr);
}

TEST(CudaRuntime, DriverThatDoesNotStart) {
  FakeDriver driver;
  Handle library;
  driver.failing["cuInit"] = 100;
  EXPECT_EQ(open(example(), library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(),
               "the NVIDIA driver does not start: CUDA_ERROR_EXAMPLE (an example)");
  driver.failing["cuInit"] = 999;
  EXPECT_EQ(open(example(), library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "the NVIDIA driver does not start: CUDA error 999");
  driver.failing = {{"cuDeviceGetAttribute", 3}};
  EXPECT_EQ(open(example(), library), KVQ_DEVICE_ERROR);
  driver.failing = {{"cuDevicePrimaryCtxRetain", 2}};
  FakeDriver::setCurrent(nullptr);
  EXPECT_EQ(open(example(), library), KVQ_OUT_OF_MEMORY);
  EXPECT_STREQ(kvq_last_error(),
               "CUDA device 0 cannot be used: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  EXPECT_EQ(driver.retained, 0);
  driver.failing = {{"cuDeviceGet", 101}};
  EXPECT_EQ(open(example(), library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "no CUDA device: CUDA_ERROR_EXAMPLE (an example)");
}

/// An append whose load fails leaves nothing behind, and the next one tries again.
template <typename Change>
void expectLoadError(kvq_status status, const char *message, Change change) {
  FakeDriver driver;
  const Handle library = openExample();
  change(driver);
  const kvq_append_args args = appendArgs(1);
  EXPECT_EQ(kvq_append(library.get(), &args), status);
  EXPECT_STREQ(kvq_last_error(), message);
  EXPECT_EQ(driver.modules, 0);
  EXPECT_EQ(driver.allocations, 0);
  EXPECT_TRUE(driver.launches.empty());
  driver.failing.clear(), driver.missingSymbol.clear(), driver.maxThreads = 1024;
  EXPECT_EQ(kvq_append(library.get(), &args), KVQ_OK) << kvq_last_error();
}

TEST(CudaRuntime, LoadErrors) {
  using D = FakeDriver;
  expectLoadError(KVQ_UNSUPPORTED,
                  "the library's kernels for sm_90a (cubin) cannot be loaded on Example GPU, "
                  "compute capability 9.0: CUDA_ERROR_EXAMPLE (an example)",
                  [](D &d) { d.failing["cuModuleLoadDataEx"] = cuda::kNoBinaryForGpu; });
  expectLoadError(KVQ_INVALID_FILE,
                  "the library's kernels for sm_90a (cubin) cannot be loaded on Example GPU, "
                  "compute capability 9.0: CUDA_ERROR_EXAMPLE (an example): line 7: wrong",
                  [](D &d) {
                    d.failing["cuModuleLoadDataEx"] = cuda::kInvalidPtx;
                    d.jitLog = "line 7: wrong\nline 8: too";
                  });
  expectLoadError(KVQ_INVALID_FILE,
                  "expected the symbol 'kvq_plan' in the kernels for sm_90a (cubin), got none",
                  [](D &d) { d.missingSymbol = "kvq_plan"; });
  expectLoadError(KVQ_UNSUPPORTED,
                  "the kernel 'kvq_plan' has blocks of 256 threads, Example GPU, compute "
                  "capability 9.0 runs it with at most 192",
                  [](D &d) { d.maxThreads = 192; });
  expectLoadError(KVQ_DEVICE_ERROR,
                  "the kernel 'kvq_plan' cannot be loaded: CUDA_ERROR_EXAMPLE (an example)",
                  [](D &d) { d.failing["cuFuncSetAttribute"] = 1; });
  expectLoadError(KVQ_OUT_OF_MEMORY,
                  "the library's constants, 16 bytes, cannot be put on Example GPU, compute "
                  "capability 9.0: CUDA_ERROR_OUT_OF_MEMORY (out of memory)",
                  [](D &d) { d.failing["cuMemAlloc"] = 2; });
  expectLoadError(KVQ_DEVICE_ERROR,
                  "the library's constants, 16 bytes, cannot be put on Example GPU, compute "
                  "capability 9.0: CUDA_ERROR_EXAMPLE (an example)",
                  [](D &d) { d.failing["cuMemcpyHtoD"] = 1; });
}

TEST(CudaRuntime, LaunchErrorsNameTheKernel) {
  FakeDriver driver;
  const Handle library = openExample();
  driver.failing["cuLaunchKernelEx"] = 700;
  const kvq_decode_args args = decodeArgs(1);
  EXPECT_EQ(kvq_decode(library.get(), &args), KVQ_DEVICE_ERROR);
  EXPECT_STREQ(kvq_last_error(),
               "the driver did not launch 'kvq_plan': CUDA_ERROR_EXAMPLE (an example)");
  EXPECT_EQ(driver.calls["cuLaunchKernelEx"], 1);
  driver.failing = {{"cuCtxPushCurrent", 201}};
  FakeDriver::setCurrent("other");
  EXPECT_EQ(kvq_decode(library.get(), &args), KVQ_DEVICE_ERROR);
  EXPECT_STREQ(kvq_last_error(), "the CUDA context in which the library was opened is not usable: "
                                 "CUDA_ERROR_EXAMPLE (an example)");
  driver.failing.clear();
}

template <typename Change>
void expectOpenError(kvq_status status, const char *message, Change change) {
  FakeDriver driver;
  LibraryContents contents = example();
  change(contents);
  Handle library;
  EXPECT_EQ(open(contents, library), status);
  EXPECT_STREQ(kvq_last_error(), message);
}

TEST(CudaRuntime, OpenRefusesLibrariesThatCannotWork) {
  using C = LibraryContents;
  expectOpenError(KVQ_INVALID_FILE,
                  "expected kernels of four roles for sm_90a (cubin), got none for plan",
                  [](C &c) { c.kernels.erase(c.kernels.begin() + 1); });
  expectOpenError(KVQ_INVALID_FILE,
                  "expected the warps of a block of 'kvq_decode' to be a power of two, got 6",
                  [](C &c) { c.kernels[3].threads = 192; });
  expectOpenError(KVQ_UNSUPPORTED,
                  "the kernel 'kvq_prepare' needs 233472 bytes of shared memory, the device "
                  "(Example GPU, compute capability 9.0) has 232448 for a block",
                  [](C &c) { c.kernels[2].shared_bytes = 233472; });
}

} // namespace

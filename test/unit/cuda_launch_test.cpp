// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Append, decode and workspace sizes on a CUDA device, over a driver that only writes down what it
// is asked.
#include "test/unit/CountAllocations.h"
#include "test/unit/CudaExample.h"
#include "test/unit/FakeDriver.h"

#include <cmath>
#include <cstring>

using namespace kvq;
using namespace kvq::test;

namespace {

/// Offset of a pointer in the workspace of decodeArgs.
int64_t offset(const void *pointer) {
  return int64_t(reinterpret_cast<uintptr_t>(pointer) - kWorkspace);
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

TEST(CudaLaunch, AppendRunsAWarpForEachTokenAndHead) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_token_args args = appendArgs(7);
  args.execution.stream = address(0x77);
  ASSERT_EQ(kvq_append(library.get(), &args), KVQ_OK) << kvq_last_error();
  ASSERT_EQ(kernelsOf(driver), std::vector<std::string>{"kvq_append"});
  const Launch &launch = driver.launches[0];
  EXPECT_EQ(launch.grid, 4u); // 14 rows by blocks of 4 warps
  EXPECT_EQ(launch.block, 128u);
  EXPECT_EQ(launch.sharedBytes, 0u);
  EXPECT_EQ(launch.stream, args.execution.stream);
  EXPECT_FALSE(launch.early);
  const kvq_token_kernel_args &got = launch.append;
  EXPECT_EQ(got.k, args.k);
  EXPECT_EQ(got.v, args.v);
  EXPECT_EQ(got.k_token_stride, 512);
  EXPECT_EQ(got.k_head_stride, 256);
  EXPECT_EQ(got.v_token_stride, 272);
  EXPECT_EQ(got.v_head_stride, 128);
  EXPECT_EQ(got.slots, args.slots);
  EXPECT_EQ(got.pool, args.pool.data);
  EXPECT_EQ(got.page_stride, 1 << 20);
  EXPECT_EQ(got.head_stride, 1 << 19);
  EXPECT_EQ(got.page_tokens, 64);
  EXPECT_EQ(got.tokens, 7);
  EXPECT_EQ(got.kv_heads, 2);
  EXPECT_EQ(got.layer, 1);
  EXPECT_EQ(got.first_head, 0);
  EXPECT_EQ(std::memcmp(got.constants, kConstants, sizeof kConstants), 0);
}

TEST(CudaLaunch, DecodePassesEveryArgument) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(3);
  args.place.first_head = 1, args.place.kv_heads = 1;
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  ASSERT_EQ(kernelsOf(driver), (std::vector<std::string>{"kvq_plan", "kvq_prepare", "kvq_decode"}));
  for (const Launch &launch : driver.launches) {
    const kvq_decode_kernel_args &got = launch.decode.common;
    EXPECT_EQ(launch.stream, nullptr);
    EXPECT_EQ(got.q, args.q);
    EXPECT_EQ(got.q_token_stride, 1024);
    EXPECT_EQ(got.q_head_stride, 256);
    EXPECT_EQ(got.out, args.out);
    EXPECT_EQ(got.out_token_stride, 512);
    EXPECT_EQ(got.out_head_stride, 128);
    EXPECT_EQ(got.lse, args.lse);
    EXPECT_EQ(got.lse_token_stride, 16);
    EXPECT_EQ(got.lse_head_stride, 4);
    EXPECT_EQ(got.pool, args.pool.data);
    EXPECT_EQ(got.page_stride, 1 << 20);
    EXPECT_EQ(got.head_stride, 1 << 19);
    EXPECT_EQ(got.page_tokens, 64);
    EXPECT_EQ(got.block_table, args.table.ids);
    EXPECT_EQ(got.block_table_stride, 64);
    EXPECT_EQ(got.lengths, args.lengths);
    EXPECT_EQ(got.page_indptr, nullptr);
    EXPECT_EQ(got.q_indptr, nullptr);
    EXPECT_EQ(got.q_length, 1);
    EXPECT_EQ(got.ratio, 2);
    EXPECT_EQ(got.row_blocks, 1);
    EXPECT_EQ(got.max_length, 1000);
    EXPECT_EQ(got.window, INT32_MAX);
    EXPECT_EQ(got.sinks, nullptr);
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

TEST(CudaLaunch, BlocksOfTheThreeKernels) {
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

TEST(CudaLaunch, SharedMemoryOfTheDecodeKernel) {
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

TEST(CudaLaunch, TeamsFollowTheNumberOfSegments) {
  FakeDriver driver;
  const Handle library = openExample();
  // 1024 warps; segments are 2 * batch. Bytes, in multiples of 128: 128 of faults, 144 per segment,
  // 40 per slot (teams + segments), 8 per segment, 4 * (2 * (batch + 1) + 2 * (teams + 1) + 3 *
  // batch).
  const TeamCase cases[] = {
      {1, 8, 128, 128 + 384 + 5248 + 128 + 1152},
      {64, 8, 128, 128 + 18432 + 10240 + 1024 + 2432},
      {65, 4, 256, 128 + 18816 + 15488 + 1152 + 3456},
      {128, 4, 256, 128 + 36864 + 20480 + 2048 + 4736},
      {256, 2, 512, 128 + 73728 + 40960 + 4096 + 9344},
      {512, 1, 1024, 128 + 147456 + 81920 + 8192 + 18560},
      {513, 1, 1024, 128 + 147840 + 82048 + 8320 + 18560},
      {5000, 1, 1024, 128 + 1440000 + 440960 + 80000 + 108288},
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

TEST(CudaLaunch, WorkspaceParts) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(65);
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK);
  const kvq_gpu_decode_args &got = driver.launches[0].decode;
  EXPECT_EQ(offset(got.faults), 0);
  EXPECT_EQ(offset(got.common.query), 128);
  EXPECT_EQ(offset(got.common.partial), 128 + 18816);
  EXPECT_EQ(offset(got.counters), 128 + 18816 + 15488);
  EXPECT_EQ(offset(got.plan), 128 + 18816 + 15488 + 1152);
}

TEST(CudaLaunch, SplitsOfTheCaller) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(3);
  args.split_tokens = 128; // 8 chunks of 1000 tokens
  EXPECT_EQ(workspaceBytes(library.get(), args), 128u + 896 + 1920 + 128 + 8320);
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  kvq_gpu_decode_args got = driver.launches.back().decode;
  EXPECT_EQ(got.chunk_units, 2);
  EXPECT_EQ(got.team_warps, 1);
  EXPECT_EQ(got.teams, 1024);
  EXPECT_EQ(offset(got.plan), 128 + 896 + 1920 + 128);
  args.split_tokens = 65536; // no limit but the multiple
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  got = driver.launches.back().decode;
  EXPECT_EQ(got.chunk_units, 1024);
  EXPECT_EQ(offset(got.counters) - offset(got.common.partial), 256); // 6 slots of 40
}

TEST(CudaLaunch, WorkspaceNeverShrinks) {
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

TEST(CudaLaunch, PlannedDecodeSkipsThePlan) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(3);
  args.flags = KVQ_DECODE_PLANNED;
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(kernelsOf(driver), (std::vector<std::string>{"kvq_prepare", "kvq_decode"}));
}

TEST(CudaLaunch, NothingToDoLaunchesNothing) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_token_args append = {};
  append.size = sizeof append;
  EXPECT_EQ(kvq_append(library.get(), &append), KVQ_OK) << kvq_last_error();
  kvq_decode_args decode = {};
  decode.size = sizeof decode;
  EXPECT_EQ(kvq_decode(library.get(), &decode), KVQ_OK) << kvq_last_error();
  EXPECT_TRUE(driver.launches.empty());
}

TEST(CudaLaunch, CallsOnlyLaunch) {
  FakeDriver driver;
  const Handle library = openExample();
  const kvq_token_args append = appendArgs(7);
  const kvq_decode_args decode = decodeArgs(3);
  workspaceBytes(library.get(), decode); // loads
  const int calls = driver.total(), allocations = allocationCount();
  ASSERT_EQ(kvq_append(library.get(), &append), KVQ_OK);
  ASSERT_EQ(kvq_decode(library.get(), &decode), KVQ_OK);
  EXPECT_EQ(allocationCount(), allocations);
  // Four launches, and in each call a look at the current context: no allocation, no copy, no wait.
  EXPECT_EQ(driver.total() - calls, 6);
  EXPECT_EQ(driver.calls["cuLaunchKernelEx"], 4);
  EXPECT_EQ(driver.allocations, 1);
}

/// `change` makes one argument wrong; the message must begin with its name, and nothing runs.
template <typename Change> void expectAppendError(const char *name, Change change) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_token_args args = appendArgs(7);
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

TEST(CudaLaunch, ChecksArguments) {
  using A = kvq_token_args;
  using D = kvq_decode_args;
  expectAppendError("k", [](A &a) { a.k = address(0x1008); });
  expectAppendError("v", [](A &a) { a.v = nullptr; });
  expectAppendError("slots", [](A &a) { a.slots = address<int64_t>(0x3004); });
  expectAppendError("pool.data", [](A &a) { a.pool.data = address(0x4040); });
  expectAppendError("k_token_stride", [](A &a) { a.k_token_stride += 8; });
  expectAppendError("pool.page_stride", [](A &a) { a.pool.page_stride = 128; });
  expectAppendError("place.layer", [](A &a) { a.place.layer = 2; });
  expectAppendError("tokens", [](A &a) { a.tokens = -1; });
  expectDecodeError("q", [](D &d) { d.q = address(0x1008); });
  expectDecodeError("out", [](D &d) { d.out = nullptr; });
  expectDecodeError("out_token_stride", [](D &d) { d.out_token_stride = 0; });
  expectDecodeError("lse", [](D &d) { d.lse = address<float>(0x3002); });
  expectDecodeError("pool.data", [](D &d) { d.pool.data = nullptr; });
  expectDecodeError("table.ids", [](D &d) { d.table.ids = nullptr; });
  expectDecodeError("table.row_stride", [](D &d) { d.table.row_stride = 32; });
  expectDecodeError("lengths", [](D &d) { d.lengths = nullptr; });
  expectDecodeError("batch", [](D &d) { d.batch = -1; });
  expectDecodeError("max_length", [](D &d) { d.max_length = -1; });
  expectDecodeError("split_tokens", [](D &d) { d.split_tokens = 96; });
  expectDecodeError("split_tokens", [](D &d) { d.split_tokens = -64; });
  expectDecodeError("scale", [](D &d) { d.scale = INFINITY; });
  expectDecodeError("flags", [](D &d) { d.flags = 2; });
  expectDecodeError("workspace", [](D &d) { d.workspace = address(0x10000020); });
  expectDecodeError("workspace_bytes", [](D &d) { d.workspace_bytes = 100; });
  expectDecodeError("place.first_head + place.kv_heads",
                    [](D &d) { d.place.first_head = 1, d.place.kv_heads = 2; });
  expectDecodeError("batch, max_length", [](D &d) {
    d.batch = d.max_length = INT32_MAX, d.split_tokens = 64, d.table.row_stride = 0;
  });
}

/// Kernels count units of 64 tokens in 32 bits: one more sequence than fits is refused. A
/// max_length that the block table cannot hold does not count.
TEST(CudaLaunch, UnitsFit32Bits) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(3);
  args.max_length = INT32_MAX;
  args.table.columns = (64 << 20) / args.pool.page_tokens; // 2^20 units, and two for windows
  args.table.row_stride = 0;
  args.place.kv_heads = 1;
  args.batch = 2046;
  args.workspace_bytes = workspaceBytes(library.get(), args);
  EXPECT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  args.batch = 2048;
  args.workspace_bytes = workspaceBytes(library.get(), args);
  EXPECT_EQ(kvq_decode(library.get(), &args), KVQ_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(kvq_last_error()).find("batch, max_length, table.columns: expected"), 0u)
      << kvq_last_error();
  args.max_length = 63 << 20;
  EXPECT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
}

TEST(CudaLaunch, WorkspaceMayBeExact) {
  FakeDriver driver;
  const Handle library = openExample();
  kvq_decode_args args = decodeArgs(3);
  args.workspace_bytes = workspaceBytes(library.get(), args);
  EXPECT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  --args.workspace_bytes;
  EXPECT_EQ(kvq_decode(library.get(), &args), KVQ_INVALID_ARGUMENT);
}

TEST(CudaLaunch, EarlyLaunchesNeedCapability9) {
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

/// The fallback's kernels have no griddepcontrol: launched early they would not wait.
TEST(CudaLaunch, OlderCodeIsNotLaunchedEarlyOnANewDevice) {
  FakeDriver driver;
  LibraryContents contents = emptyLibrary();
  addModule(contents, "sm_80", "ptx");
  const kvq_decode_args args = decodeArgs(3);
  ASSERT_EQ(kvq_decode(openExample(contents).get(), &args), KVQ_OK) << kvq_last_error();
  ASSERT_EQ(driver.launches.size(), 3u);
  for (const Launch &launch : driver.launches)
    EXPECT_FALSE(launch.early);
}

} // namespace

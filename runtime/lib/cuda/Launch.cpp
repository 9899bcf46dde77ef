// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/cuda/Launch.h"

#include "runtime/lib/Launch.h"

#include <algorithm>

namespace kvq::cuda {
namespace {

constexpr int64_t kPartAlign = 128; ///< bytes, of the parts of a workspace

/// A power of two, at most `x`; 1 for less.
int64_t floorPowerOfTwo(int64_t x) {
  int64_t power = 1;
  while (power <= x / 2)
    power *= 2;
  return power;
}

/// What the checks work out of decode arguments; kernel_abi.h tells what the numbers mean. Zeros
/// where the batch is empty.
struct DecodePlan {
  DecodeShape shape;
  int64_t blocks = 0, teams = 0, teamWarps = 1, chunkUnits = 1;
  int64_t prepareBlocks = 0;
  int64_t queryAt = 0, partialAt = 0, countersAt = 0, planAt = 0, workspaceBytes = 0; ///< bytes

  const DeviceCode &code() const { return *shape.call.format->device; }
};

/// Sums sizes of the parts of a workspace.
struct Parts {
  int64_t bytes = 0;
  bool fits = true;

  void add(int64_t count, int64_t each) {
    int64_t part = 0;
    fits = fits && !__builtin_mul_overflow(count, each, &part) && part < INT64_MAX / 8;
    bytes += fits ? roundUp(part, kPartAlign) : 0;
  }
};

/// A chunk more than the tokens need: windows begin units of their own.
int64_t partialSlots(const kvq_decode_args &args, const DecodePlan &plan) {
  const int64_t segments = plan.shape.segments;
  if (!args.split_tokens)
    return plan.teams + segments;
  const CacheMethod &method = plan.shape.call.format->method;
  const int64_t extra = method.windowed() ? 3 * KVQ_GPU_UNIT_TOKENS : 0;
  return segments * ((args.max_length + extra + args.split_tokens - 1) / args.split_tokens);
}

void planTeams(const kvq_decode_args &args, DecodePlan &plan) {
  const int64_t warps = plan.code().warps(KernelRole::decode);
  plan.blocks = plan.code().decodeBlocks();
  if (args.split_tokens)
    plan.chunkUnits = args.split_tokens / KVQ_GPU_UNIT_TOKENS;
  else
    plan.teamWarps = std::min(floorPowerOfTwo(plan.blocks * warps / plan.shape.segments), warps);
  plan.teams = plan.blocks * warps / plan.teamWarps;
}

Status planDecode(const kvq_library &library, const kvq_decode_args &args, DecodePlan &plan) {
  Arguments check;
  if (Status status = shapeOf(library, args, check, plan.shape); !status.ok())
    return status;
  check.range("split_tokens", args.split_tokens, 0, INT32_MAX);
  check.multiple("split_tokens", args.split_tokens, KVQ_GPU_UNIT_TOKENS);
  plan.workspaceBytes = kFaultBytes;
  if (!check.ok() || args.batch == 0)
    return check.status; // nothing is launched, so no more workspace is needed
  const DeviceCode &code = plan.code();
  const int64_t segments = plan.shape.segments, rows = segments * plan.shape.rowClass;
  const int64_t warps = code.warps(KernelRole::prepare);
  plan.prepareBlocks = (rows + warps - 1) / warps;
  planTeams(args, plan);
  const bool counts = plan.prepareBlocks <= INT32_MAX &&
                      segments <= INT64_MAX / (std::max<int64_t>(args.max_length, 1) + 256);
  Parts parts{kFaultBytes, counts};
  plan.queryAt = parts.bytes;
  parts.add(segments, 4 * code.info().query_floats);
  plan.partialAt = parts.bytes;
  parts.add(counts ? partialSlots(args, plan) : 0, 4 * code.info().partial_floats);
  plan.countersAt = parts.bytes;
  parts.add(rows, 4);
  plan.planAt = parts.bytes;
  parts.add(KVQ_GPU_PLAN_WORDS(args.batch, plan.teams), 4);
  plan.workspaceBytes = parts.bytes;
  if (!parts.fits)
    check.fail("batch, max_length", "work that a grid and 2^60 bytes hold", "more");
  return check.status;
}

/// The kernels count units in 32 bits. max_length may be far above every length; the page table is
/// the closer bound.
void checkUnits(Arguments &check, const kvq_decode_args &args, const DecodePlan &plan) {
  if (!check.ok())
    return;
  const int64_t tokens = longestOf(plan.shape, args);
  const int64_t units = (tokens + KVQ_GPU_UNIT_TOKENS - 1) / KVQ_GPU_UNIT_TOKENS + 2;
  if (plan.shape.segments > INT32_MAX / units)
    check.fail("batch, max_length, table.columns",
               "less than 2^31 units of 64 tokens over all sequences, KV heads and row blocks",
               "more");
}

/// A launch; `parameters` is the one struct that the kernel takes.
Status launchBlocks(const DeviceCode &code, KernelRole role, int64_t blocks, void *stream,
                    bool early, void *parameters) {
  const DeviceKernel &kernel = code.kernel(role);
  LaunchAttribute attribute = {};
  attribute.id = LaunchAttribute::kProgrammaticStreamSerialization;
  attribute.value.allowed = 1;
  LaunchConfig config = {};
  config.gridX = uint32_t(blocks), config.gridY = config.gridZ = 1;
  config.blockX = kernel.threads, config.blockY = config.blockZ = 1;
  config.sharedBytes = kernel.sharedBytes;
  config.stream = static_cast<Stream>(stream);
  config.attributes = early ? &attribute : nullptr;
  config.attributeCount = early ? 1 : 0;
  const Driver &driver = *code.device.driver;
  const Result result = driver.launchKernelEx(&config, kernel.function, &parameters, nullptr);
  if (result == kSuccess)
    return {};
  return {KVQ_DEVICE_ERROR,
          "the driver did not launch '" + code.symbol(role) + "': " + errorText(driver, result)};
}

Status contextError(const Device &device, Result result) {
  return {KVQ_DEVICE_ERROR, "the CUDA context in which the library was opened is not usable: " +
                                errorText(*device.driver, result)};
}

kvq_gpu_decode_args kernelArguments(const kvq_decode_args &args, const DecodePlan &plan) {
  kvq_gpu_decode_args out = {};
  char *workspace = static_cast<char *>(args.workspace);
  out.common = kvq::kernelArguments(plan.shape, args, plan.code().constants());
  out.common.query = reinterpret_cast<float *>(workspace + plan.queryAt);
  out.common.partial = reinterpret_cast<float *>(workspace + plan.partialAt);
  out.counters = reinterpret_cast<uint32_t *>(workspace + plan.countersAt);
  out.plan = reinterpret_cast<int32_t *>(workspace + plan.planAt);
  out.faults = reinterpret_cast<uint32_t *>(workspace);
  out.teams = plan.teams;
  out.chunk_units = plan.chunkUnits;
  out.team_warps = plan.teamWarps;
  return out;
}

/// Launches a kernel of `items` items, `perBlock` of them in a block, once the code is loaded.
template <typename MakeArguments>
Status launchItems(const Call &call, KernelRole role, int64_t items, int64_t perBlock, void *stream,
                   MakeArguments makeArguments) {
  DeviceCode &code = *call.format->device;
  const int64_t blocks = (items + perBlock - 1) / perBlock;
  if (blocks > INT32_MAX)
    return {KVQ_INVALID_ARGUMENT, "expected at most " + std::to_string(INT32_MAX) + " blocks of " +
                                      std::to_string(perBlock) + " tokens and KV heads, got " +
                                      std::to_string(items)};
  if (Status status = code.load(); !status.ok())
    return status;
  const CurrentContext current(code.device);
  if (current.result != kSuccess)
    return contextError(code.device, current.result);
  auto arguments = makeArguments(code.constants());
  return launchBlocks(code, role, blocks, stream, /*early=*/false, &arguments);
}

} // namespace

Status launchTokens(const Call &call, KernelRole role, const kvq_token_args &args) {
  return launchItems(
      call, role, args.tokens * call.heads, call.format->device->warps(role), args.execution.stream,
      [&](const void *constants) { return kvq::kernelArguments(call, args, constants); });
}

Status launchDemote(const Call &call, const kvq_demote_args &args) {
  return launchItems(
      call, KernelRole::demote, args.batch * args.most * call.heads,
      call.format->device->warps(KernelRole::demote), args.execution.stream,
      [&](const void *constants) { return kvq::kernelArguments(call, args, constants); });
}

Status launchCommit(const Call &call, const kvq_commit_args &args) {
  return launchItems(call, KernelRole::commit, args.batch,
                     32 * call.format->device->warps(KernelRole::commit), args.execution.stream,
                     [&](const void *) {
                       kvq_demote_kernel_args out = {};
                       out.from = args.from, out.to = args.to, out.lengths = args.lengths;
                       out.batch = args.batch, out.step = args.step;
                       return out;
                     });
}

Status workspaceSize(const kvq_library &library, const kvq_decode_args &args, size_t &bytes) {
  DecodePlan plan;
  if (Status status = planDecode(library, args, plan); !status.ok())
    return status;
  if (Status status = plan.shape.call.format->device->load(); !status.ok())
    return status;
  bytes = size_t(plan.workspaceBytes);
  return {};
}

Status initWorkspace(const kvq_library &library, void *workspace, void *stream) {
  const CurrentContext current(*library.device);
  if (current.result != kSuccess)
    return contextError(*library.device, current.result);
  const Driver &driver = *library.device->driver;
  const Result result =
      driver.memsetD8Async(workspace, 0, kFaultBytes, static_cast<Stream>(stream));
  if (result == kSuccess)
    return {};
  return {KVQ_DEVICE_ERROR, "the driver did not clear the workspace: " + errorText(driver, result)};
}

Status copyAsync(const kvq_library &library, void *to, const void *from, size_t bytes,
                 void *stream) {
  const CurrentContext current(*library.device);
  if (current.result != kSuccess)
    return contextError(*library.device, current.result);
  const Driver &driver = *library.device->driver;
  const Result result =
      driver.memcpyAsync(to, const_cast<void *>(from), bytes, static_cast<Stream>(stream));
  if (result == kSuccess)
    return {};
  return {KVQ_DEVICE_ERROR, "the driver did not copy a page: " + errorText(driver, result)};
}

/// The checks of a decode, or of its plan alone, and the code loaded.
static Status readyDecode(const kvq_library &library, const kvq_decode_args &args, bool onlyPlan,
                          DecodePlan &plan) {
  if (Status status = planDecode(library, args, plan); !status.ok())
    return status;
  if (args.batch == 0)
    return {};
  Arguments check;
  checkDecode(check, plan.shape, args, onlyPlan);
  checkUnits(check, args, plan);
  checkWorkspace(check, args, plan.workspaceBytes);
  return check.ok() ? plan.shape.call.format->device->load() : check.status;
}

/// The kernels of a decode, or that of its plan alone.
static Status launchKernels(const kvq_library &library, const kvq_decode_args &args,
                            bool onlyPlan) {
  DecodePlan plan;
  if (Status status = readyDecode(library, args, onlyPlan, plan); !status.ok() || args.batch == 0)
    return status;
  const CurrentContext current(*library.device);
  if (current.result != kSuccess)
    return contextError(*library.device, current.result);
  kvq_gpu_decode_args kernel = kernelArguments(args, plan);
  auto launch = [&](KernelRole role, int64_t blocks, bool early) {
    return launchBlocks(plan.code(), role, blocks, args.execution.stream, early, &kernel);
  };
  if (onlyPlan || !(args.flags & KVQ_DECODE_PLANNED))
    if (Status status = launch(KernelRole::plan, 1, /*early=*/false); !status.ok() || onlyPlan)
      return status;
  const bool early = plan.code().startsEarly();
  if (Status status = launch(KernelRole::prepare, plan.prepareBlocks, early); !status.ok())
    return status;
  return launch(KernelRole::decode, plan.blocks, early);
}

Status launchPlan(const kvq_library &library, const kvq_decode_args &args) {
  return launchKernels(library, args, /*onlyPlan=*/true);
}

Status launchDecode(const kvq_library &library, const kvq_decode_args &args) {
  return launchKernels(library, args, /*onlyPlan=*/false);
}

} // namespace kvq::cuda

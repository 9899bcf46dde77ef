// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/cuda/Launch.h"

#include "runtime/lib/Checks.h"

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
  CallHeads heads;
  int64_t segments = 0; ///< (sequence, KV head)
  int64_t blocks = 0, teams = 0, teamWarps = 1, chunkUnits = 1;
  int64_t prepareBlocks = 0;
  int64_t partialAt = 0, countersAt = 0, planAt = 0, workspaceBytes = 0; ///< bytes
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

int64_t partialSlots(const kvq_decode_args &args, const DecodePlan &plan) {
  if (!args.split_tokens)
    return plan.teams + plan.segments;
  return plan.segments * ((args.max_length + args.split_tokens - 1) / args.split_tokens);
}

void planTeams(const DeviceCode &code, const kvq_decode_args &args, DecodePlan &plan) {
  const int64_t warps = code.warps(KernelRole::decode);
  plan.blocks = code.decodeBlocks();
  if (args.split_tokens)
    plan.chunkUnits = args.split_tokens / KVQ_GPU_UNIT_TOKENS;
  else
    plan.teamWarps = std::min(floorPowerOfTwo(plan.blocks * warps / plan.segments), warps);
  plan.teams = plan.blocks * warps / plan.teamWarps;
}

void planDecode(Arguments &check, const Format &format, const kvq_decode_args &args,
                DecodePlan &plan) {
  const DeviceCode &code = *format.device;
  plan.heads = checkDecodeSize(check, format.method, args);
  check.range("split_tokens", args.split_tokens, 0, INT32_MAX);
  check.multiple("split_tokens", args.split_tokens, KVQ_GPU_UNIT_TOKENS);
  if (!check.ok() || args.batch == 0)
    return;                                      // nothing is launched, so no workspace is needed
  plan.segments = args.batch * plan.heads.heads; // below 2^47
  const int64_t queries = plan.segments * plan.heads.ratio, warps = code.warps(KernelRole::prepare);
  plan.prepareBlocks = (queries + warps - 1) / warps;
  planTeams(code, args, plan);
  const bool counts = plan.prepareBlocks <= INT32_MAX &&
                      plan.segments <= INT64_MAX / std::max<int64_t>(args.max_length, 1);
  Parts parts{0, counts};
  parts.add(plan.segments, 4 * code.info().query_floats);
  plan.partialAt = parts.bytes;
  parts.add(counts ? partialSlots(args, plan) : 0, 4 * code.info().partial_floats);
  plan.countersAt = parts.bytes;
  parts.add(queries, 4);
  plan.planAt = parts.bytes;
  parts.add(2 * (args.batch + 1) + 2 * (plan.teams + 1), 4);
  plan.workspaceBytes = parts.bytes;
  if (!parts.fits)
    check.fail("batch, max_length", "work that a grid and 2^60 bytes hold", "more");
}

/// The kernels count units in 32 bits. max_length may be far above every length; the block table is
/// the closer bound.
void checkUnits(Arguments &check, const kvq_decode_args &args, const DecodePlan &plan) {
  if (!check.ok())
    return;
  const int64_t tokens = std::min(args.max_length, args.block_table_columns * args.page_tokens);
  const int64_t units = (tokens + KVQ_GPU_UNIT_TOKENS - 1) / KVQ_GPU_UNIT_TOKENS;
  if (units && plan.segments > INT32_MAX / units)
    check.fail("batch, max_length, block_table_columns",
               "less than 2^31 units of 64 tokens over all sequences and KV heads", "more");
}

/// A launch; `parameters` is the one struct that the kernel takes.
Status launch(const DeviceCode &code, KernelRole role, int64_t blocks, void *stream, bool early,
              void *parameters) {
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

Status contextError(const DeviceCode &code, Result result) {
  return {KVQ_DEVICE_ERROR, "the CUDA context in which the library was opened is not usable: " +
                                errorText(*code.device.driver, result)};
}

kvq_gpu_decode_args kernelArguments(const Format &format, int64_t layer,
                                    const kvq_decode_args &args, const DecodePlan &plan) {
  kvq_gpu_decode_args out = {};
  char *workspace = static_cast<char *>(args.workspace);
  out.common = kvq::kernelArguments(format, args, plan.heads, format.device->constants());
  out.common.layer = layer;
  out.common.query = reinterpret_cast<float *>(workspace);
  out.common.partial = reinterpret_cast<float *>(workspace + plan.partialAt);
  out.counters = reinterpret_cast<uint32_t *>(workspace + plan.countersAt);
  out.plan = reinterpret_cast<int32_t *>(workspace + plan.planAt);
  out.teams = plan.teams;
  out.chunk_units = plan.chunkUnits;
  out.team_warps = plan.teamWarps;
  return out;
}

} // namespace

Status launchAppend(const Format &format, int64_t layer, const kvq_append_args &args) {
  DeviceCode &code = *format.device;
  if (Status status = checkAppendStep(format); !status.ok())
    return status;
  Arguments check;
  const CallHeads heads = checkAppendSize(check, format.method, args);
  if (!check.ok() || args.tokens == 0)
    return check.status;
  checkAppend(check, format, args);
  const int64_t warps = code.warps(KernelRole::append);
  const int64_t blocks = (args.tokens * heads.heads + warps - 1) / warps;
  if (check.ok() && blocks > INT32_MAX)
    check.fail("tokens",
               "at most " + std::to_string(INT32_MAX) + " blocks of " + std::to_string(warps) +
                   " rows",
               std::to_string(args.tokens));
  if (!check.ok())
    return check.status;
  if (Status status = code.load(); !status.ok())
    return status;
  const CurrentContext current(code.device);
  if (current.result != kSuccess)
    return contextError(code, current.result);
  kvq_cpu_append_args kernel = kvq::kernelArguments(args, heads, code.constants());
  kernel.layer = layer;
  return launch(code, KernelRole::append, blocks, args.stream, false, &kernel);
}

Status workspaceSize(const Format &format, const kvq_decode_args &args, size_t &bytes) {
  Arguments check;
  DecodePlan plan;
  planDecode(check, format, args, plan);
  if (!check.ok())
    return check.status;
  if (Status status = format.device->load(); !status.ok())
    return status;
  bytes = size_t(plan.workspaceBytes);
  return {};
}

Status launchDecode(const Format &format, int64_t layer, const kvq_decode_args &args) {
  DeviceCode &code = *format.device;
  Arguments check;
  DecodePlan plan;
  planDecode(check, format, args, plan);
  if (!check.ok() || args.batch == 0)
    return check.status;
  checkDecode(check, format, args, plan.heads);
  checkUnits(check, args, plan);
  checkWorkspace(check, args, plan.workspaceBytes);
  if (!check.ok())
    return check.status;
  if (Status status = code.load(); !status.ok())
    return status;
  const CurrentContext current(code.device);
  if (current.result != kSuccess)
    return contextError(code, current.result);
  kvq_gpu_decode_args kernel = kernelArguments(format, layer, args, plan);
  if (!(args.flags & KVQ_DECODE_PLANNED))
    if (Status status = launch(code, KernelRole::plan, 1, args.stream, false, &kernel);
        !status.ok())
      return status;
  const bool early = code.startsEarly();
  if (Status status =
          launch(code, KernelRole::prepare, plan.prepareBlocks, args.stream, early, &kernel);
      !status.ok())
    return status;
  return launch(code, KernelRole::decode, plan.blocks, args.stream, early, &kernel);
}

} // namespace kvq::cuda

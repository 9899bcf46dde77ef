// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/gpu/BuildGpuKernels.h"

#include "codegen/conversion/BuildKernels.h"
#include "codegen/conversion/Refusal.h"
#include "codegen/conversion/gpu/GpuKernelBuilder.h"
#include "codegen/conversion/gpu/GpuPattern.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::kvq {
namespace {

using Role = ::kvq::KernelRole;

constexpr int64_t kAppendWarps = 4, kPlanThreads = 1024, kPrepareWarps = 4;
/// A dot of 256 hi + lo queries stays below 2^31 up to here (Query.cpp).
constexpr int kMaxGpuHeadDim = 256;
/// Query rows (in n-tiles of 4) times head dim whose integer sums fit the registers of a thread: it
/// bounds the row class.
constexpr int64_t kMostSums = 4 * 128;

/// What a kernel takes, by value, and what it does.
struct KernelBody {
  int64_t argBytes;
  void (GpuKernelBuilder::*build)();
};

KernelBody bodyOf(Role role) {
  constexpr int64_t token = sizeof(kvq_token_kernel_args), decode = sizeof(kvq_gpu_decode_args);
  constexpr int64_t demote = sizeof(kvq_demote_kernel_args);
  switch (role) {
  case Role::append:
    return {token, &GpuKernelBuilder::appendWarps};
  case Role::plan:
    return {decode, &GpuKernelBuilder::plan};
  case Role::prepare:
    return {decode, &GpuKernelBuilder::prepareWarps};
  case Role::decode:
    return {decode, &GpuKernelBuilder::decodeTeams};
  case Role::dequantize:
    return {token, &GpuKernelBuilder::dequantizeWarps};
  case Role::append_window:
    return {token, &GpuKernelBuilder::appendWindowWarps};
  case Role::demote:
    return {demote, &GpuKernelBuilder::demoteWarps};
  case Role::commit:
    return {demote, &GpuKernelBuilder::commitThreads};
  case Role::merge:
    break;
  }
  llvm_unreachable("not a role of a GPU");
}

void buildKernel(ModuleOp module, Location loc, const ::kvq::CacheMethod &method, const Chip &chip,
                 const GpuLaunch &launch) {
  const KernelBody body = bodyOf(launch.role);
  MLIRContext *context = module.getContext();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Type pointer = LLVM::LLVMPointerType::get(context);
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), {pointer});
  auto function = LLVM::LLVMFuncOp::create(builder, loc, kernelSymbol(launch.role), type);
  auto words = LLVM::LLVMArrayType::get(builder.getI64Type(), body.argBytes / 8);
  function.setArgAttr(0, "llvm.byval", TypeAttr::get(words));
  function.setArgAttr(0, "llvm.align", builder.getI64IntegerAttr(8));
  function.setCConv(LLVM::CConv::PTX_Kernel);
  auto attribute = [&](StringRef key, int64_t value) -> Attribute {
    return builder.getStrArrayAttr({key, std::to_string(value)});
  };
  function.setPassthroughAttr(builder.getArrayAttr(
      {attribute("nvvm.maxntid", launch.threads), attribute("nvvm.minctasm", 1)}));
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  WarpEmit emit(builder, loc, chip.features);
  (GpuKernelBuilder(emit, method, chip, function.getArgument(0)).*body.build)();
  LLVM::ReturnOp::create(builder, loc, ValueRange());
}

} // namespace

int64_t gpuRowClassOf(const ::kvq::CacheMethod &method) {
  int64_t ratio = method.q_heads / method.kv_heads;
  int64_t most = std::min<int64_t>(kMaxRowClass, 4 * (kMostSums / method.value.record.dim));
  return std::min((ratio + 3) / 4 * 4, std::max<int64_t>(most, 4));
}

GpuWorkspace gpuWorkspaceOf(const ::kvq::CacheMethod &method) {
  const ::kvq::RecordSide &key = method.key.record;
  return {gpuRowClassOf(method), key.dim, key.group ? key.dim / key.group : 1,
          method.value.record.dim};
}

static int64_t decodeBytes(const ::kvq::CacheMethod &method, const GpuSchedule &schedule) {
  int64_t unit = 4 * ::kvq::buildRecord(method.record()).tileBytes;
  int64_t warp = schedule.stages * (unit + 8) + 4 * gpuWorkspaceOf(method).warpWords();
  return schedule.warps * warp;
}

GpuSchedule scheduleOf(const ::kvq::CacheMethod &method, const Chip &chip) {
  GpuSchedule schedule;
  while (schedule.warps > 1 && decodeBytes(method, schedule) > chip.sharedBytes)
    schedule.warps /= 2;
  if (gpuWorkspaceOf(method).nTiles() > 2)
    schedule.tiles = 2;
  return schedule;
}

std::vector<GpuLaunch> gpuKernelsOf(const ::kvq::CacheMethod &method, const Chip &chip) {
  const GpuSchedule schedule = scheduleOf(method, chip);
  auto tokens = [](Role role) {
    return GpuLaunch{role, 32 * kAppendWarps, kAppendWarps * kAppendWarpBytes};
  };
  std::vector<GpuLaunch> kernels = {
      tokens(Role::append),
      {Role::plan, kPlanThreads, 0},
      {Role::prepare, 32 * kPrepareWarps, 0},
      {Role::decode, 32 * schedule.warps, decodeBytes(method, schedule)},
      tokens(Role::dequantize)};
  if (method.windowed())
    kernels.insert(kernels.end(), {tokens(Role::append_window), tokens(Role::demote),
                                   GpuLaunch{Role::commit, kPlanThreads, 0}});
  return kernels;
}

std::string unsupportedOnGpu(const ::kvq::CacheMethod &method, const Chip &chip) {
  const Refusal refuse(chip.name, kMaxGpuHeadDim);
  if (std::string reason = refuse.ofMethod(method); !reason.empty())
    return reason;
  constexpr int unit = KVQ_GPU_UNIT_TOKENS;
  if (method.page <= 0 || method.page % 16 || (unit % method.page && method.page % unit))
    return refuse("a page of 16, 32 or a multiple of 64 tokens", std::to_string(method.page));
  if (std::string rule = ::kvq::verifyRecord(method.record()); !rule.empty())
    return rule;
  FragmentMap map;
  if (std::string error = FragmentMap::build(method.record(), map); !error.empty())
    return error;
  if (int64_t bytes = decodeBytes(method, scheduleOf(method, chip)); bytes > chip.sharedBytes)
    return refuse("at most " + std::to_string(chip.sharedBytes) + " bytes of shared memory a block",
                  std::to_string(bytes));
  return "";
}

LogicalResult buildGpuKernels(ModuleOp module, Location loc, const ::kvq::CacheMethod &method,
                              const Chip &chip) {
  if (std::string reason = unsupportedOnGpu(method, chip); !reason.empty())
    return emitError(loc) << reason;
  for (const GpuLaunch &launch : gpuKernelsOf(method, chip))
    buildKernel(module, loc, method, chip, launch);
  return success();
}

} // namespace mlir::kvq

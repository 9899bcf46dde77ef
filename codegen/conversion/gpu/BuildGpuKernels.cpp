// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/gpu/BuildGpuKernels.h"

#include "codegen/conversion/gpu/GpuKernelBuilder.h"
#include "codegen/conversion/gpu/GpuPattern.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::kvq {
namespace {

constexpr int64_t kAppendWarps = 4, kPlanThreads = 1024, kPrepareWarps = 4;
/// What a block may ask for on the smallest chip that is served.
constexpr int64_t kSharedLimit = 160 * 1024;

/// Names the target in every reason.
class Refusal {
public:
  explicit Refusal(StringRef target) : target(target) {}

  std::string operator()(const std::string &expected, const std::string &got) const {
    return "target " + target.str() + " expects " + expected + ", got " + got;
  }

  std::string side(const char *name, const ::kvq::RecordSide &side) const {
    const Refusal &refuse = *this;
    const std::string of = std::string(" for the ") + name;
    if (side.dim <= 0 || side.dim > 256 || side.dim % 32)
      return refuse("a head dim that is a multiple of 32 up to 256" + of, std::to_string(side.dim));
    if (side.bits != 2 && side.bits != 4 && side.bits != 8)
      return refuse("2, 4 or 8 bits" + of, std::to_string(side.bits));
    if (side.form == ::kvq::ParameterForm::norm)
      return refuse("parameters of the min, zero or sym form" + of, "the norm form");
    if (side.axis == ::kvq::ParameterAxis::channel)
      return refuse("parameters per token" + of, "parameters per channel");
    if (side.outer != ::kvq::OuterScale::none)
      return refuse("no outer scale" + of, "one");
    if (side.packing != ::kvq::CodePacking::byte)
      return refuse("byte packing" + of, "nibble packing");
    return "";
  }

private:
  StringRef target;
};

/// A kernel of one struct by value.
void buildKernel(ModuleOp module, Location loc, StringRef name, const ::kvq::CacheMethod &method,
                 ChipFeatures chip, GpuLaunch launch, int64_t argBytes,
                 void (GpuKernelBuilder::*body)()) {
  MLIRContext *context = module.getContext();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Type pointer = LLVM::LLVMPointerType::get(context);
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), {pointer});
  auto function = LLVM::LLVMFuncOp::create(builder, loc, name, type);
  auto words = LLVM::LLVMArrayType::get(builder.getI64Type(), argBytes / 8);
  function.setArgAttr(0, "llvm.byval", TypeAttr::get(words));
  function.setArgAttr(0, "llvm.align", builder.getI64IntegerAttr(8));
  function.setCConv(LLVM::CConv::PTX_Kernel);
  auto attribute = [&](StringRef key, int64_t value) -> Attribute {
    return builder.getStrArrayAttr({key, std::to_string(value)});
  };
  function.setPassthroughAttr(builder.getArrayAttr(
      {attribute("nvvm.maxntid", launch.threads), attribute("nvvm.minctasm", 1)}));
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  WarpEmit emit(builder, loc, chip);
  (GpuKernelBuilder(emit, method, function.getArgument(0), Value()).*body)();
  LLVM::ReturnOp::create(builder, loc, ValueRange());
}

} // namespace

GpuWorkspace gpuWorkspaceOf(const ::kvq::CacheMethod &method) {
  const ::kvq::RecordSide &key = method.key.record;
  return {method.q_heads / method.kv_heads, key.dim, key.group ? key.dim / key.group : 1,
          method.value.record.dim};
}

GpuSchedule scheduleOf(const ::kvq::CacheMethod &method) {
  GpuSchedule schedule;
  // Fewer warps where the sums of many queries or channels fill the registers and shared memory.
  if (gpuWorkspaceOf(method).nTiles() * method.value.record.dim > 256)
    schedule.warps = 4;
  return schedule;
}

GpuLaunch appendLaunch() { return {32 * kAppendWarps, kAppendWarps * kAppendWarpBytes}; }
GpuLaunch planLaunch() { return {kPlanThreads, 0}; }
GpuLaunch prepareLaunch() { return {32 * kPrepareWarps, 0}; }

GpuLaunch decodeLaunch(const ::kvq::CacheMethod &method) {
  GpuSchedule schedule = scheduleOf(method);
  int64_t unit = 4 * ::kvq::buildRecord(method.record()).tileBytes;
  int64_t warp = schedule.stages * (unit + 8) + 4 * gpuWorkspaceOf(method).warpWords();
  return {32 * schedule.warps, schedule.warps * warp};
}

std::string unsupportedOnGpu(const ::kvq::CacheMethod &method, llvm::StringRef target) {
  const Refusal refuse(target);
  if (std::string reason = refuse.side("key", method.key.record); !reason.empty())
    return reason;
  if (std::string reason = refuse.side("value", method.value.record); !reason.empty())
    return reason;
  if (method.sink || method.recent)
    return refuse("no high-precision windows", "sink = " + std::to_string(method.sink) +
                                                    " and recent = " +
                                                    std::to_string(method.recent));
  if (method.kv_heads <= 0 || method.q_heads % method.kv_heads ||
      method.q_heads / method.kv_heads < 1 || method.q_heads / method.kv_heads > 16)
    return refuse("1 to 16 query heads per KV head",
                   "q_heads = " + std::to_string(method.q_heads) +
                       " and kv_heads = " + std::to_string(method.kv_heads));
  if (method.page <= 0 || method.page % 16 || (64 % method.page && method.page % 64))
    return refuse("a page of 16, 32 or a multiple of 64 tokens", std::to_string(method.page));
  if (std::string rule = ::kvq::verifyRecord(method.record()); !rule.empty())
    return rule;
  FragmentMap map;
  if (std::string error = FragmentMap::build(method.record(), map); !error.empty())
    return error;
  if (int64_t bytes = decodeLaunch(method).sharedBytes; bytes > kSharedLimit)
    return refuse("at most " + std::to_string(kSharedLimit) + " bytes of shared memory a block",
                   std::to_string(bytes));
  return "";
}

LogicalResult buildGpuKernels(ModuleOp module, Location loc, const ::kvq::CacheMethod &method,
                              const Chip &chip) {
  if (std::string reason = unsupportedOnGpu(method, chip.name); !reason.empty())
    return emitError(loc) << reason;
  auto build = [&](StringRef name, GpuLaunch launch, int64_t bytes,
                   void (GpuKernelBuilder::*body)()) {
    buildKernel(module, loc, name, method, chip.features, launch, bytes, body);
  };
  constexpr int64_t decodeBytes = sizeof(kvq_gpu_decode_args);
  build("kvq_append", appendLaunch(), sizeof(kvq_cpu_append_args), &GpuKernelBuilder::appendWarps);
  build("kvq_plan", planLaunch(), decodeBytes, &GpuKernelBuilder::plan);
  build("kvq_prepare", prepareLaunch(), decodeBytes, &GpuKernelBuilder::prepareWarps);
  build("kvq_decode", decodeLaunch(method), decodeBytes, &GpuKernelBuilder::decodeTeams);
  return success();
}

} // namespace mlir::kvq

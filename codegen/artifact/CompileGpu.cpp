// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/artifact/CompileGpu.h"

#include "codegen/Passes.h"
#include "codegen/artifact/KernelName.h"
#include "codegen/conversion/gpu/BuildGpuKernels.h"
#include "codegen/target/PtxDigest.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace mlir::kvq {

FailureOr<GpuCode> compileGpu(Location loc, const ::kvq::CacheMethod &method, const Chip &chip,
                              bool machineCode, StageObserver observe) {
  MLIRContext &context = *loc.getContext();
  loadCodegenDialects(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  if (failed(buildGpuKernels(*module, loc, method, chip)))
    return failure();
  observe("tiles", [&](llvm::raw_ostream &stream) { module->print(stream); });
  PassManager passes(&context);
  buildGpuToLlvmPipeline(passes);
  if (failed(passes.run(*module)))
    return failure();
  observe("upstream", [&](llvm::raw_ostream &stream) { module->print(stream); });
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code = translateToLlvm(*module, llvmContext, chip);
  if (!code)
    return failure();
  observe("llvm", [&](llvm::raw_ostream &stream) { code->print(stream, nullptr); });
  FailureOr<std::string> ptx = emitPtx(*code, chip, loc);
  if (failed(ptx))
    return failure();
  observe("ptx", [&](llvm::raw_ostream &stream) { stream << *ptx; });
  GpuCode result{std::move(*ptx), "", "", ""};
  std::string ptxas = machineCode ? findPtxas() : "";
  if (ptxas.empty())
    return result;
  FailureOr<std::string> cubin = assemble(ptxas, result.ptx, chip, loc, result.log);
  if (failed(cubin))
    return failure();
  result.cubin = std::move(*cubin);
  result.ptxas = ptxasVersion(ptxas);
  return result;
}

GpuModule gpuModule(const ::kvq::CacheMethod &method, const Chip &chip, GpuCode code) {
  GpuModule module;
  module.target = chip.name;
  module.name = printKernelName(kernelNameOf(method, ::kvq::KernelRole::decode, chip.name));
  module.ptxDigest = ptxDigest(code.ptx);
  module.llvm = LLVM_VERSION_STRING;
  module.ptxas = std::move(code.ptxas);
  // Machine code of one chip runs on later ones no more than code of an `a` chip does: what is
  // meant for all of them stays PTX.
  const bool machineCode = !code.cubin.empty() && StringRef(chip.name).ends_with("a");
  module.level = machineCode ? "cubin" : "ptx";
  module.code = machineCode ? std::move(code.cubin) : std::move(code.ptx);
  const GpuWorkspace space = gpuWorkspaceOf(method);
  auto add = [&](::kvq::KernelRole role, GpuLaunch launch) {
    const bool append = role == ::kvq::KernelRole::append;
    const bool rows = role == ::kvq::KernelRole::prepare || role == ::kvq::KernelRole::decode;
    module.kernels.push_back(
        {role, std::string("kvq_") + ::kvq::roleName(role), static_cast<int32_t>(launch.threads),
         static_cast<int32_t>(launch.sharedBytes), append ? 0 : space.queryFloats(),
         append ? 0 : space.partialFloats(), printKernelName(kernelNameOf(method, role, chip.name)),
         rows ? method.q_heads / method.kv_heads : 0});
  };
  add(::kvq::KernelRole::append, appendLaunch());
  add(::kvq::KernelRole::plan, planLaunch());
  add(::kvq::KernelRole::prepare, prepareLaunch());
  add(::kvq::KernelRole::decode, decodeLaunch(method, chip));
  return module;
}

} // namespace mlir::kvq

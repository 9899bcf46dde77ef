// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/artifact/CompileGpu.h"

#include "codegen/Passes.h"
#include "codegen/artifact/KernelName.h"
#include "codegen/conversion/BuildKernels.h"
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

/// What ptxas says under -v of the kernel `symbol`: "Compiling entry function 'S' for ...", and
/// some lines later "Used 40 registers". 0 if it does not.
static int32_t registersOf(StringRef log, StringRef symbol) {
  const std::string entry = "entry function '" + symbol.str() + "'";
  const size_t at = log.find(entry);
  if (at == StringRef::npos)
    return 0;
  StringRef rest = log.drop_front(at + entry.size());
  rest = rest.take_front(rest.find("entry function")).split("Used ").second;
  int32_t registers = 0;
  return rest.consumeInteger(10, registers) || !rest.starts_with(" registers") ? 0 : registers;
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
  using Role = ::kvq::KernelRole;
  for (const GpuLaunch &launch : gpuKernelsOf(method, chip)) {
    const Role role = launch.role;
    const bool rows = role == Role::prepare || role == Role::decode;
    const bool decodes = rows || role == Role::plan;
    GpuKernel kernel;
    kernel.role = role;
    kernel.symbol = kernelSymbol(role);
    kernel.threads = static_cast<int32_t>(launch.threads);
    kernel.sharedBytes = static_cast<int32_t>(launch.sharedBytes);
    kernel.queryFloats = decodes ? space.queryFloats() : 0;
    kernel.partialFloats = decodes ? space.partialFloats() : 0;
    kernel.name = printKernelName(kernelNameOf(method, role, chip.name));
    kernel.rows = rows ? static_cast<int32_t>(space.queries) : 0;
    kernel.registers = machineCode ? registersOf(code.log, kernel.symbol) : 0;
    module.kernels.push_back(std::move(kernel));
  }
  return module;
}

} // namespace mlir::kvq

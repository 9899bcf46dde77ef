// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/target/Translate.h"

#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

namespace mlir::kvq {

std::unique_ptr<llvm::Module> translateOptimized(ModuleOp module, llvm::LLVMContext &context,
                                                 llvm::TargetMachine &machine) {
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  std::unique_ptr<llvm::Module> result = translateModuleToLLVMIR(module, context, "kvq");
  if (!result)
    return nullptr;
  // Both before the optimiser runs: without them LLVM finds nothing worth vectorising.
  result->setTargetTriple(machine.getTargetTriple());
  result->setDataLayout(machine.createDataLayout());
  auto optimize = makeOptimizingTransformer(/*optLevel=*/3, /*sizeLevel=*/0, &machine);
  if (llvm::Error error = optimize(result.get())) {
    emitError(module.getLoc()) << "LLVM could not optimise the kernels: "
                               << llvm::toString(std::move(error));
    return nullptr;
  }
  return result;
}

FailureOr<std::string> emitFile(llvm::Module &module, llvm::TargetMachine &machine,
                                llvm::CodeGenFileType type, StringRef what, Location loc) {
  llvm::SmallVector<char> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
    return emitError(loc) << "LLVM cannot write " << what;
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

} // namespace mlir::kvq

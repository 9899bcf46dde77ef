// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/artifact/CompileCpu.h"

#include "codegen/Passes.h"
#include "codegen/conversion/BuildKernels.h"
#include "codegen/target/Link.h"
#include "dialect/KVQTile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace mlir::kvq {

void loadCodegenDialects(MLIRContext &context) {
  context.loadDialect<KVQDialect, arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect,
                      math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
}

FailureOr<std::string> compileCpuObject(Location loc, const ::kvq::CacheMethod &method,
                                        CpuLevel level, StageObserver observe) {
  MLIRContext &context = *loc.getContext();
  loadCodegenDialects(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  if (failed(buildKernels(*module, loc, method)))
    return failure();
  observe("tiles", [&](llvm::raw_ostream &stream) { module->print(stream); });
  PassManager passes(&context);
  buildCpuToLlvmPipeline(passes, featuresOf(level));
  if (failed(passes.run(*module)))
    return failure();
  observe("upstream", [&](llvm::raw_ostream &stream) { module->print(stream); });
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code = translateToLlvm(*module, llvmContext, level);
  if (!code)
    return failure();
  observe("llvm", [&](llvm::raw_ostream &stream) { code->print(stream, nullptr); });
  return emitObject(*code, level, loc);
}

FailureOr<std::string> compileCpuShared(Location loc, const ::kvq::CacheMethod &method,
                                        CpuLevel level, StageObserver observe) {
  FailureOr<std::string> object = compileCpuObject(loc, method, level, observe);
  if (failed(object))
    return failure();
  return linkShared(*object, loc);
}

} // namespace mlir::kvq

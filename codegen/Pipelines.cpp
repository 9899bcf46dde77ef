// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/Passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace mlir::kvq {
namespace {

struct CpuToLlvmOptions : PassPipelineOptions<CpuToLlvmOptions> {
  Option<bool> fma{*this, "fma", llvm::cl::desc("fused multiply-add exists"), llvm::cl::init(true)};
  Option<bool> f16c{*this, "f16c", llvm::cl::desc("conversion between f16 and f32 exists"),
                    llvm::cl::init(true)};
};

/// From what tile patterns emit to the llvm dialect.
void addUpstreamLowering(OpPassManager &manager) {
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertFuncToLLVMPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
}

} // namespace

void buildCpuToLlvmPipeline(OpPassManager &manager, CpuFeatures features) {
  LowerTilesCpuOptions options;
  options.fma = features.fma;
  options.f16c = features.f16c;
  manager.addPass(createLowerTilesCpu(options));
  addUpstreamLowering(manager);
}

void buildGpuToLlvmPipeline(OpPassManager &manager) {
  manager.addPass(createLowerTilesGpu());
  addUpstreamLowering(manager);
}

void registerCodegen() {
  registerKvqCodegenPasses();
  PassPipelineRegistration<CpuToLlvmOptions>(
      "kvq-cpu-to-llvm", "tile ops to the llvm dialect, for the CPU",
      [](OpPassManager &manager, const CpuToLlvmOptions &options) {
        buildCpuToLlvmPipeline(manager, {options.fma, options.f16c});
      });
  PassPipelineRegistration<>("kvq-gpu-to-llvm", "tile ops to the llvm dialect, for an NVIDIA GPU",
                             buildGpuToLlvmPipeline);
}

} // namespace mlir::kvq

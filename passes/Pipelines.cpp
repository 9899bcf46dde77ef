// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"

namespace mlir::kvq {

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

namespace {

struct OptimizePipelineOptions : PassPipelineOptions<OptimizePipelineOptions> {
  Option<std::string> calibration{*this, "calibration",
                                  llvm::cl::desc("calibration file that gives constants values")};
  Option<std::string> output{*this, "output",
                             llvm::cl::desc("rotate: rotate the output back; weights: the output "
                                            "projection holds the inverse"),
                             llvm::cl::init("rotate")};
};

} // namespace

void buildOptimizePipeline(OpPassManager &manager, const OptimizeOptions &options) {
  if (!options.calibration.empty())
    manager.addPass(createImportCalibration({options.calibration}));
  manager.addPass(createDefaultAttention());
  manager.addPass(createSimplify());
  manager.addPass(createPlaceRotations({options.output}));
  manager.addPass(createFuseAttention());
  manager.addPass(createPlanLayout());
}

void registerKvqPasses() {
  registerKvqTransformsPasses();
  PassPipelineRegistration<OptimizePipelineOptions>(
      "kvq-optimize", "pipelines and caches to fused attention with a planned record",
      [](OpPassManager &manager, const OptimizePipelineOptions &options) {
        buildOptimizePipeline(manager, {options.calibration, options.output});
      });
}

} // namespace mlir::kvq

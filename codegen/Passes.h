// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes and pipelines of the code generator.
#pragma once

#include "codegen/conversion/Features.h"

#include "mlir/Pass/Pass.h"

namespace mlir {
class OpPassManager;
}

namespace mlir::kvq {

#define GEN_PASS_DECL
#include "codegen/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "codegen/Passes.h.inc"

/// Tile ops to the llvm dialect. Registered as the pipeline `kvq-cpu-to-llvm`.
void buildCpuToLlvmPipeline(OpPassManager &manager, CpuFeatures features);

/// The same for an NVIDIA GPU. Registered as the pipeline `kvq-gpu-to-llvm`.
void buildGpuToLlvmPipeline(OpPassManager &manager);

/// Registers the passes and pipelines of this file.
void registerCodegen();

} // namespace mlir::kvq

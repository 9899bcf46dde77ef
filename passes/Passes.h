// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of level 1 and 2, IR to IR, and the pipeline `kvq-optimize`. None of them knows a target.
#pragma once

#include "mlir/Pass/Pass.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace mlir::kvq {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

/// Options of `kvq-optimize`.
struct OptimizeOptions {
  std::string
      calibration; ///< calibration file; empty: constants must have values, or get them later
  std::string output = "rotate"; ///< as the option of kvq-place-rotations
};

/// From pipelines and a cache to fused attention with a planned record: import-calibration (when
/// there is a file), default-attention, simplify, place-rotations, fuse-attention, plan-layout.
void buildOptimizePipeline(OpPassManager &manager, const OptimizeOptions &options);

/// Registers the passes and `kvq-optimize`.
void registerKvqPasses();

} // namespace mlir::kvq

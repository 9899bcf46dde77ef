// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Skeletons: the GPU kernels of a method (kernel_abi.h) as functions of tile ops.
#pragma once

#include "codegen/conversion/gpu/Chip.h"
#include "codegen/conversion/gpu/GpuWorkspace.h"
#include "runtime/format/library.h"
#include "runtime/format/method.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::kvq {

/// How decode is cut into warps, stages and steps.
struct GpuSchedule {
  int64_t warps = 8;  ///< of a block; a power of two
  int64_t stages = 2; ///< of a warp's ring
  int64_t tiles = 4;  ///< of a step: what is in registers at once
};

/// A kernel, and threads and dynamic shared memory of its blocks.
struct GpuLaunch {
  ::kvq::KernelRole role;
  int64_t threads, sharedBytes;
};

/// Row class of the GPU's decode kernel: 4, 8, 12 or 16.
int64_t gpuRowClassOf(const ::kvq::CacheMethod &method);
GpuWorkspace gpuWorkspaceOf(const ::kvq::CacheMethod &method);
/// As many warps as the shared memory of `chip` allows.
GpuSchedule scheduleOf(const ::kvq::CacheMethod &method, const Chip &chip);
/// The GPU kernels of a method: those that move rows of windows only for one that has windows.
std::vector<GpuLaunch> gpuKernelsOf(const ::kvq::CacheMethod &method, const Chip &chip);

/// Why `chip` cannot serve `method`, or an empty string.
std::string unsupportedOnGpu(const ::kvq::CacheMethod &method, const Chip &chip);

/// Appends the GPU kernels of `method` to `module`. Emits one diagnostic at `loc` and adds nothing
/// when `chip` cannot serve `method`.
LogicalResult buildGpuKernels(ModuleOp module, Location loc, const ::kvq::CacheMethod &method,
                              const Chip &chip);

} // namespace mlir::kvq

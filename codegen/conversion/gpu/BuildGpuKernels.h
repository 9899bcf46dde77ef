// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Skeletons: the four GPU kernels of a method (kernel_abi.h) as functions of tile ops.
#pragma once

#include "codegen/conversion/gpu/Chip.h"
#include "codegen/conversion/gpu/GpuWorkspace.h"
#include "runtime/format/method.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::kvq {

/// How a kernel is cut into warps and stages.
struct GpuSchedule {
  int64_t warps = 8;  ///< of a block of decode
  int64_t stages = 2; ///< of a warp's ring
  int64_t registers = 255; ///< the most a thread of decode may use
};

/// Threads and dynamic shared memory of the blocks of each kernel.
struct GpuLaunch {
  int64_t threads = 0, sharedBytes = 0;
};

GpuWorkspace gpuWorkspaceOf(const ::kvq::CacheMethod &method);
GpuSchedule scheduleOf(const ::kvq::CacheMethod &method);
GpuLaunch appendLaunch();
GpuLaunch planLaunch();
GpuLaunch prepareLaunch();
GpuLaunch decodeLaunch(const ::kvq::CacheMethod &method);

/// Why `target`, a chip, cannot serve `method`, or an empty string.
std::string unsupportedOnGpu(const ::kvq::CacheMethod &method, llvm::StringRef target);

/// Appends @kvq_append, @kvq_plan, @kvq_prepare and @kvq_decode to `module`. Emits one diagnostic at
/// `loc` and adds nothing when `chip` cannot serve `method`.
LogicalResult buildGpuKernels(ModuleOp module, Location loc, const ::kvq::CacheMethod &method,
                              const Chip &chip);

} // namespace mlir::kvq

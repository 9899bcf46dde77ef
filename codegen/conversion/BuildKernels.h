// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Skeletons: the CPU kernels of a method (kernel_abi.h) as functions of tile ops.
#pragma once

#include "codegen/conversion/Workspace.h"
#include "runtime/format/library.h"
#include "runtime/format/method.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::kvq {

/// The workspace of a method's decode kernels.
Workspace workspaceOf(const ::kvq::CacheMethod &method);

/// Why the CPU target cannot serve `method`, or an empty string.
std::string unsupportedOnCpu(const ::kvq::CacheMethod &method);

/// "kvq_append".
std::string kernelSymbol(::kvq::KernelRole role);

/// The CPU kernels of a method: those that move rows of windows only for one that has windows.
std::vector<::kvq::KernelRole> cpuKernelsOf(const ::kvq::CacheMethod &method);

/// Appends the CPU kernels of `method` to `module`. Emits one diagnostic at `loc` and adds nothing
/// when the CPU target cannot serve `method`.
LogicalResult buildKernels(ModuleOp module, Location loc, const ::kvq::CacheMethod &method);

} // namespace mlir::kvq

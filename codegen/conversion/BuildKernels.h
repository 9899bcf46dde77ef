// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Skeletons: the four CPU kernels of a method (kernel_abi.h) as functions of tile ops.
#pragma once

#include "codegen/conversion/Workspace.h"
#include "runtime/format/method.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::kvq {

/// The workspace of a method's decode kernels.
Workspace workspaceOf(const ::kvq::CacheMethod &method);

/// Why the CPU target cannot serve `method`, or an empty string.
std::string unsupportedOnCpu(const ::kvq::CacheMethod &method);

/// Appends @kvq_append, @kvq_prepare, @kvq_decode, @kvq_merge and @kvq_dequantize to `module`, and
/// @kvq_append_window and @kvq_demote for a method with windows. Emits one diagnostic
/// at `loc` and adds nothing when the CPU target cannot serve `method`.
LogicalResult buildKernels(ModuleOp module, Location loc, const ::kvq::CacheMethod &method);

} // namespace mlir::kvq

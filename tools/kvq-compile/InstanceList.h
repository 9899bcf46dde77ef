// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kvq-compile on a list of kernels by name.
#pragma once

#include "codegen/artifact/KernelName.h"

#include "mlir/Support/LLVM.h"

#include <string>
#include <vector>

namespace mlir::kvq {

/// Compiles each of `names` into folder/NAME.kvqlib, or NAME.ptx if `ptx`, up to `jobs` at a time,
/// and writes folder/instances.json: name, digest of the PTX and versions of LLVM and ptxas of
/// each. Failures, with `progress` every kernel, and at the end seconds, peak memory and bytes go
/// to standard error. Libraries need ptxas. Compiles the others, too, where one fails; then fails.
LogicalResult compileInstanceList(const std::vector<KernelName> &names, const std::string &folder,
                                  bool ptx, unsigned jobs, bool progress);

} // namespace mlir::kvq

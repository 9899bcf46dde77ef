// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The NVIDIA targets: from a module of the llvm dialect to PTX text and machine code.
#pragma once

#include "codegen/conversion/gpu/Chip.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace mlir::kvq {

/// LLVM IR of `module` for `chip`, optimised with -O3. Null after a diagnostic on the module's
/// location.
std::unique_ptr<llvm::Module> translateToLlvm(ModuleOp module, llvm::LLVMContext &context,
                                              const Chip &chip);

/// PTX text of `module`; fails with a diagnostic at `loc`, also when the text calls a function, as
/// it does for an intrinsic that LLVM does not know, or keeps an array in local memory.
FailureOr<std::string> emitPtx(llvm::Module &module, const Chip &chip, Location loc);

/// The file that KVQ_PTXAS names, else ptxas of the PATH, of CUDA_HOME or of the usual place of the
/// toolkit; empty if there is none.
std::string findPtxas();

/// The version that `ptxas` says it is, "13.0.88"; empty if it says none.
std::string ptxasVersion(llvm::StringRef ptxas);

/// Machine code of `ptx`. `log` receives what ptxas says of registers and spills.
FailureOr<std::string> assemble(llvm::StringRef ptxas, llvm::StringRef ptx, const Chip &chip,
                                Location loc, std::string &log);

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What all targets do with LLVM: from the llvm dialect to optimised IR, and from there to a file.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/CodeGen.h"

#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace mlir::kvq {

/// LLVM IR of `module` for `machine`, optimised with -O3. Null after a diagnostic on the module's
/// location.
std::unique_ptr<llvm::Module> translateOptimized(ModuleOp module, llvm::LLVMContext &context,
                                                 llvm::TargetMachine &machine);

/// The bytes of the object or assembly file of `module`; fails with a diagnostic at `loc` that
/// calls the file `what`.
FailureOr<std::string> emitFile(llvm::Module &module, llvm::TargetMachine &machine,
                                llvm::CodeGenFileType type, llvm::StringRef what, Location loc);

} // namespace mlir::kvq

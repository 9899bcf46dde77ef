// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CPU target: a module of the llvm dialect becomes an x86-64 object.
#pragma once

#include "codegen/conversion/Features.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace mlir::kvq {

/// Instruction set of the object. All levels give the same codes.
enum class CpuLevel {
  baseline, ///< x86-64: SSE2
  v3,       ///< x86-64-v3: AVX2, FMA, F16C
  v4,       ///< x86-64-v4: AVX-512
};

/// `x86-64`, `x86-64-v3`, `x86-64-v4`; nothing for another name.
std::optional<CpuLevel> parseCpuLevel(llvm::StringRef name);
llvm::StringRef cpuLevelName(CpuLevel level);
/// The highest level that this machine has.
CpuLevel hostCpuLevel();
CpuFeatures featuresOf(CpuLevel level);

/// Translates `module` to LLVM IR for `level`, optimised with -O3. Null after a diagnostic on the
/// module's location.
std::unique_ptr<llvm::Module> translateToLlvm(ModuleOp module, llvm::LLVMContext &context,
                                              CpuLevel level);

/// The object file of `module`; fails with a diagnostic at `loc`, also when the object needs a
/// symbol other than the memory functions every C library has.
FailureOr<std::string> emitObject(llvm::Module &module, CpuLevel level, Location loc);

} // namespace mlir::kvq

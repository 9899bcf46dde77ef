// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The work of kvq-compile, without its command line.
#pragma once

#include "codegen/artifact/KernelName.h"
#include "codegen/target/CpuObject.h"
#include "codegen/target/Ptx.h"

#include <optional>
#include <string>

namespace mlir::kvq {

enum class EmitKind { mlir, llvm, object, ptx, cubin, library };

struct CompileOptions {
  std::string input;                ///< .mlir file, or - for standard input
  std::string calibration;          ///< calibration file; empty: none
  std::string output;               ///< file to write, or - for standard output
  std::string dumpStages;           ///< folder that gets the text of each stage; empty: none
  std::string placement = "rotate"; ///< as the option `output` of kvq-place-rotations
  EmitKind emit = EmitKind::library;
  CpuLevel level = CpuLevel::baseline;
  bool cpu = true;         ///< build kernels for the CPU
  std::vector<Chip> chips; ///< and for these
  bool progress = false;   ///< a line for each cache and target as its turn comes
  /// Kernels of this name instead of those of an input; for its chip alone.
  std::optional<KernelName> instance = std::nullopt;
};

/// Compiles the caches of a module. Diagnostics, progress and a summary go to standard error; on
/// failure nothing is written at `output`, and a summary says which caches and targets were refused
/// and why, if there are several.
LogicalResult compile(const CompileOptions &options);

} // namespace mlir::kvq

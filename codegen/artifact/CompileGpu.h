// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a method to the module of an NVIDIA chip.
#pragma once

#include "codegen/artifact/CompileCpu.h"
#include "codegen/artifact/LibraryBuilder.h"
#include "codegen/target/Ptx.h"

namespace mlir::kvq {

struct GpuCode {
  std::string ptx;
  std::string cubin; ///< empty where there is no ptxas
  std::string log;   ///< what ptxas said: registers, spills, shared memory
  std::string ptxas; ///< version of the ptxas that made the cubin
};

/// Compiles the kernels of `method`. `machineCode` asks for a cubin if ptxas can be found.
FailureOr<GpuCode> compileGpu(Location loc, const ::kvq::CacheMethod &method, const Chip &chip,
                              bool machineCode, StageObserver observe);

/// The library's entry of the module: the cubin if there is one, else the PTX; with its name and
/// the digest of the PTX.
GpuModule gpuModule(const ::kvq::CacheMethod &method, const Chip &chip, GpuCode code);

} // namespace mlir::kvq

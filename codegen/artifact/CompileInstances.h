// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From names of kernels to their libraries, several at a time.
#pragma once

#include "codegen/artifact/CompileGpu.h"
#include "codegen/artifact/KernelName.h"

#include <functional>

namespace mlir::kvq {

/// A kernel of a list, compiled; `error` is empty, or says why it could not be.
struct CompiledInstance {
  KernelName name;
  std::string error;
  std::string ptx;
  std::string cubin; ///< empty where there is no ptxas
  GpuModule module;  ///< of the library
};

/// Compiles the kernels of one name for its chip. `machineCode` asks for a cubin if ptxas can be
/// found, also for a chip whose library holds PTX.
CompiledInstance compileInstance(const KernelName &name, bool machineCode);

/// Likewise all of `names`, up to `jobs` at a time. `done` gets each when it is ready, in any order
/// and in any thread, but one at a time.
void compileInstances(const std::vector<KernelName> &names, unsigned jobs, bool machineCode,
                      const std::function<void(CompiledInstance)> &done);

/// What a compile of a name gives: there is no pipeline that it came from.
FormatArtifact instanceArtifact(const KernelName &name, std::vector<GpuModule> modules);

/// The library of a name: plain attention, no calibration, kernels for the GPU alone.
::kvq::LibraryContents instanceLibrary(const KernelName &name, GpuModule module);

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From kernels to the contents of a library file.
#pragma once

#include "codegen/target/CpuObject.h"
#include "runtime/format/library.h"
#include "runtime/format/method.h"

namespace mlir::kvq {

/// A kernel of a GPU module.
struct GpuKernel {
  ::kvq::KernelRole role; ///< of a GPU
  std::string symbol;
  int32_t threads = 0, sharedBytes = 0;
  int64_t queryFloats = 0, partialFloats = 0; ///< the same in plan, prepare and decode; append: 0
  std::string name = {};                      ///< full name (KernelName.h)
  int32_t rows = 0;      ///< prepare, decode: query rows that they take at once; else 0
  int32_t registers = 0; ///< of a thread; 0 where ptxas has not said it
};

/// What a compile for one GPU gives.
struct GpuModule {
  std::string target; ///< "sm_90a"
  std::string level;  ///< "cubin" or "ptx"
  std::string code;   ///< bytes of the cubin, text of the ptx
  std::vector<GpuKernel> kernels;
  std::string name = {};      ///< of its decode kernel
  std::string ptxDigest = {}; ///< of the PTX that the code is or was made from (PtxDigest.h)
  std::string llvm = {};      ///< version of LLVM
  std::string ptxas = {};     ///< version of ptxas; empty for PTX
};

/// What a compile of one cache gives.
struct FormatArtifact {
  ::kvq::CacheMethod method;
  std::string constants = {};    ///< bytes, as packConstants lays them out
  std::string sharedObject = {}; ///< with the CPU kernels of kernel_abi.h; empty: no CPU kernels
  CpuLevel level = CpuLevel::baseline;
  std::string pipeline = {}; ///< text of what was compiled
  std::vector<GpuModule> modules = {};
};

/// The contents of a library with the kernels of `formats`, and its manifest for people and tools
/// (manifestText). `layers` are those of the model; empty: the layers of the first format's
/// constants. Objects: of each format the CPU's if there is one, then the modules in their order.
::kvq::LibraryContents buildLibrary(std::vector<FormatArtifact> formats,
                                    std::vector<::kvq::LibraryLayer> layers = {});

} // namespace mlir::kvq

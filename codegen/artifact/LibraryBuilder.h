// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From kernels to the contents of a library file.
#pragma once

#include "codegen/target/CpuObject.h"
#include "runtime/format/library.h"
#include "runtime/format/method.h"

namespace mlir::kvq {

/// What a compile of one cache for the CPU gives.
struct CpuArtifact {
  ::kvq::CacheMethod method;
  std::string constants;    ///< bytes, as packConstants lays them out
  std::string sharedObject; ///< with the four kernels of kernel_abi.h
  CpuLevel level = CpuLevel::baseline;
  std::string pipeline; ///< text of the module that was compiled
};

/// The contents of a library with the kernels of `artifact`, and its manifest for people and tools:
/// record in text form, bits per element at the default page, kernels, pipeline text.
::kvq::LibraryContents buildLibrary(CpuArtifact artifact);

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The manifest of a library: JSON for people and tools, which the runtime does not read.
//
//   library       version of the file format        compiler   version of kvq, and of its LLVM
//   interface     version of the C interface whose kernel arguments the kernels take
//   layers        of the model: {"format", "layer"}, the layer's index in the format's constants;
//                 null where no cache serves the layer
//   formats       name of the cache, geometry, bytes of a page (all KV heads) and of a record, bits
//                 per element at the default page, the record in text form, the pipeline's text
//   kernels       format, role, target, level, symbol, query rows, workspace, launch formula; of a
//                 GPU also full name, threads, shared memory, registers where ptxas has told them
//   modules       format, name, target, level, digest of the PTX, versions of LLVM and ptxas
#pragma once

#include "codegen/artifact/LibraryBuilder.h"

#include "llvm/Support/JSON.h"

namespace mlir::kvq {

class Manifest {
public:
  void addFormat(const FormatArtifact &artifact);
  /// `from` has what the library's table does not hold; null for a CPU kernel.
  void addKernel(const ::kvq::LibraryKernel &kernel, const GpuKernel *from);
  void addModule(uint32_t format, const GpuModule &module);
  std::string text(ArrayRef<::kvq::LibraryLayer> layers) &&;

private:
  llvm::json::Array formats, kernels, modules;
};

} // namespace mlir::kvq

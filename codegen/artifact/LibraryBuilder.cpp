// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/artifact/LibraryBuilder.h"

#include "codegen/artifact/Manifest.h"
#include "codegen/conversion/BuildKernels.h"

namespace mlir::kvq {
namespace {

/// The kernels of one format, and what the manifest says of them.
class FormatBuilder {
public:
  FormatBuilder(::kvq::LibraryContents &contents, Manifest &manifest, uint32_t format)
      : contents(contents), manifest(manifest), format(format) {}

  void add(FormatArtifact &artifact) {
    if (!artifact.sharedObject.empty()) {
      addCpuKernels(artifact);
      contents.objects.push_back(std::move(artifact.sharedObject));
    }
    for (GpuModule &module : artifact.modules) {
      addGpuKernels(module);
      manifest.addModule(format, module);
      contents.objects.push_back(std::move(module.code));
    }
    manifest.addFormat(artifact);
    contents.formats.push_back({::kvq::methodText(artifact.method), std::move(artifact.constants)});
  }

private:
  ::kvq::LibraryKernel start(::kvq::KernelRole role, StringRef level, StringRef symbol) const {
    ::kvq::LibraryKernel kernel;
    kernel.role = role;
    kernel.level = level.str(), kernel.symbol = symbol.str();
    kernel.object = uint32_t(contents.objects.size());
    kernel.format = format;
    return kernel;
  }

  void addCpuKernels(const FormatArtifact &artifact) {
    const Workspace workspace = workspaceOf(artifact.method);
    using Role = ::kvq::KernelRole;
    for (Role role : cpuKernelsOf(artifact.method)) {
      ::kvq::LibraryKernel kernel = start(role, cpuLevelName(artifact.level), kernelSymbol(role));
      if (role == Role::prepare || role == Role::decode || role == Role::merge) {
        kernel.info = {workspace.queryFloats(), workspace.partialFloats()};
        kernel.rows = int32_t(workspace.queries);
      }
      manifest.addKernel(kernel, nullptr);
      contents.kernels.push_back(std::move(kernel));
    }
  }

  void addGpuKernels(const GpuModule &module) {
    for (const GpuKernel &from : module.kernels) {
      ::kvq::LibraryKernel kernel = start(from.role, module.level, from.symbol);
      kernel.target = module.target;
      kernel.info = {from.queryFloats, from.partialFloats};
      kernel.threads = from.threads;
      kernel.shared_bytes = from.sharedBytes;
      kernel.rows = from.rows;
      manifest.addKernel(kernel, &from);
      contents.kernels.push_back(std::move(kernel));
    }
  }

  ::kvq::LibraryContents &contents;
  Manifest &manifest;
  uint32_t format;
};

} // namespace

::kvq::LibraryContents buildLibrary(std::vector<FormatArtifact> formats,
                                    std::vector<::kvq::LibraryLayer> layers) {
  ::kvq::LibraryContents contents;
  if (layers.empty() && !formats.empty())
    for (int layer = 0; layer < formats.front().method.layers; ++layer)
      layers.push_back({0, uint32_t(layer)});
  contents.layers = std::move(layers);
  Manifest manifest;
  for (auto [index, artifact] : llvm::enumerate(formats))
    FormatBuilder(contents, manifest, uint32_t(index)).add(artifact);
  contents.manifest = std::move(manifest).text(contents.layers);
  return contents;
}

} // namespace mlir::kvq

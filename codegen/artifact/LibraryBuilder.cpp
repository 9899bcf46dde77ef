// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/artifact/LibraryBuilder.h"

#include "codegen/conversion/BuildKernels.h"
#include "kvq/layout.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::kvq {
namespace {

void addCpuKernels(const CpuArtifact &artifact, ::kvq::LibraryContents &contents) {
  const Workspace workspace = workspaceOf(artifact.method);
  for (auto role : {::kvq::KernelRole::append, ::kvq::KernelRole::prepare,
                    ::kvq::KernelRole::decode, ::kvq::KernelRole::merge}) {
    ::kvq::LibraryKernel kernel;
    kernel.role = role;
    kernel.level = cpuLevelName(artifact.level).str();
    kernel.symbol = std::string("kvq_") + ::kvq::roleName(role);
    kernel.object = uint32_t(contents.objects.size());
    if (role != ::kvq::KernelRole::append) {
      kernel.info = {workspace.queryFloats(), workspace.partialFloats()};
      kernel.rows = int32_t(workspace.queries);
    }
    contents.kernels.push_back(std::move(kernel));
  }
}

void addGpuKernels(const GpuModule &module, ::kvq::LibraryContents &contents) {
  for (const GpuKernel &from : module.kernels) {
    ::kvq::LibraryKernel kernel;
    kernel.role = from.role;
    kernel.target = module.target;
    kernel.level = module.level;
    kernel.symbol = from.symbol;
    kernel.object = uint32_t(contents.objects.size());
    kernel.info = {from.queryFloats, from.partialFloats};
    kernel.threads = from.threads;
    kernel.rows = from.rows;
    kernel.shared_bytes = from.sharedBytes;
    contents.kernels.push_back(std::move(kernel));
  }
}

llvm::json::Value kernelText(const ::kvq::LibraryKernel &kernel) {
  llvm::json::Object text{{"role", ::kvq::roleName(kernel.role)},
                          {"target", kernel.target},
                          {"level", kernel.level},
                          {"symbol", kernel.symbol}};
  if (kernel.threads)
    text["threads"] = kernel.threads, text["shared_bytes"] = kernel.shared_bytes;
  return text;
}

/// Kernels of the CPU have no full name.
llvm::json::Array kernelList(const std::vector<::kvq::LibraryKernel> &kernels,
                             const std::vector<GpuModule> &modules) {
  llvm::json::Array list;
  for (const ::kvq::LibraryKernel &kernel : kernels)
    list.push_back(kernelText(kernel));
  size_t at = list.size();
  for (const GpuModule &module : modules)
    at -= module.kernels.size();
  for (const GpuModule &module : modules)
    for (const GpuKernel &kernel : module.kernels)
      (*list[at++].getAsObject())["name"] = kernel.name;
  return list;
}

llvm::json::Array moduleList(const std::vector<GpuModule> &modules) {
  llvm::json::Array list;
  for (const GpuModule &module : modules)
    list.push_back(llvm::json::Object{{"name", module.name},
                                      {"target", module.target},
                                      {"level", module.level},
                                      {"ptx_sha256", module.ptxDigest},
                                      {"llvm", module.llvm},
                                      {"ptxas", module.ptxas}});
  return list;
}

std::string manifestText(const CpuArtifact &artifact,
                         const std::vector<::kvq::LibraryKernel> &kernels,
                         const std::vector<GpuModule> &modules) {
  const ::kvq::CacheMethod &method = artifact.method;
  const ::kvq::RecordLayout layout = ::kvq::buildRecord(method.record());
  llvm::Expected<llvm::json::Value> record =
      llvm::json::parse(::kvq::recordText(layout, method.name));
  llvm::json::Object manifest{{"library", int64_t(::kvq::kLibraryVersion)},
                              {"cache", method.name},
                              {"q_heads", method.q_heads},
                              {"kv_heads", method.kv_heads},
                              {"layers", method.layers},
                              {"page", method.page},
                              {"bits_per_element", ::kvq::bitsPerElement(layout)},
                              {"record", record ? std::move(*record) : llvm::json::Value(nullptr)},
                              {"kernels", kernelList(kernels, modules)},
                              {"modules", moduleList(modules)},
                              {"pipeline", artifact.pipeline}};
  llvm::consumeError(record.takeError());
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0:2}", llvm::json::Value(std::move(manifest)));
  return text;
}

} // namespace

::kvq::LibraryContents buildLibrary(CpuArtifact artifact, std::vector<GpuModule> modules) {
  ::kvq::LibraryContents contents;
  if (!artifact.sharedObject.empty()) {
    addCpuKernels(artifact, contents);
    contents.objects.push_back(std::move(artifact.sharedObject));
  }
  for (GpuModule &module : modules) {
    addGpuKernels(module, contents);
    contents.objects.push_back(std::move(module.code));
  }
  contents.manifest = manifestText(artifact, contents.kernels, modules);
  contents.formats = {{::kvq::methodText(artifact.method), std::move(artifact.constants)}};
  for (int layer = 0; layer < artifact.method.layers; ++layer)
    contents.layers.push_back({0, uint32_t(layer)});
  return contents;
}

} // namespace mlir::kvq

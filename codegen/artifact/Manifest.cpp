// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/artifact/Manifest.h"

#include "kvq/layout.h"
#include "kvq/runtime.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::kvq {
namespace {

using Role = ::kvq::KernelRole;

/// What one work item of a kernel is; kernel_abi.h has the words.
StringRef itemsOf(Role role) {
  switch (role) {
  case Role::append:
  case Role::append_window:
  case Role::dequantize:
    return "tokens * kv_heads";
  case Role::demote:
    return "batch * most * kv_heads";
  case Role::commit:
    return "batch";
  case Role::decode:
    return "segments * splits";
  case Role::prepare:
  case Role::merge:
    return "segments";
  case Role::plan:
    return "1";
  }
  return "";
}

/// How many items or blocks a launch has.
std::string launchFormula(const ::kvq::LibraryKernel &kernel) {
  const std::string items = itemsOf(kernel.role).str();
  if (kernel.target == "cpu")
    return "items = " + items;
  if (kernel.role == Role::plan)
    return "blocks = 1";
  if (kernel.role == Role::decode)
    return "blocks = multiprocessors, down to a power of two";
  if (kernel.role == Role::commit)
    return "blocks = ceil(" + items + " / threads)";
  const std::string rows = kernel.role == Role::prepare ? " * rows" : "";
  return "blocks = ceil(" + items + rows + " / (threads / 32))";
}

/// Text that is JSON by itself.
llvm::json::Value parsed(StringRef text) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (value)
    return std::move(*value);
  llvm::consumeError(value.takeError());
  return nullptr;
}

} // namespace

void Manifest::addFormat(const FormatArtifact &artifact) {
  const ::kvq::CacheMethod &method = artifact.method;
  const ::kvq::RecordLayout layout = ::kvq::buildRecord(method.record());
  formats.push_back(llvm::json::Object{{"cache", method.name},
                                       {"q_heads", method.q_heads},
                                       {"kv_heads", method.kv_heads},
                                       {"layers", method.layers},
                                       {"key_dim", method.key.record.dim},
                                       {"value_dim", method.value.record.dim},
                                       {"page", method.page},
                                       {"record_bytes", layout.bytes},
                                       {"page_bytes", layout.stride * method.kv_heads},
                                       {"bits_per_element", ::kvq::bitsPerElement(layout)},
                                       {"constants_bytes", int64_t(artifact.constants.size())},
                                       {"record", parsed(::kvq::recordText(layout, method.name))},
                                       {"pipeline", artifact.pipeline}});
}

void Manifest::addKernel(const ::kvq::LibraryKernel &kernel, const GpuKernel *from) {
  llvm::json::Object text{{"format", int64_t(kernel.format)},
                          {"role", ::kvq::roleName(kernel.role)},
                          {"target", kernel.target},
                          {"level", kernel.level},
                          {"symbol", kernel.symbol},
                          {"query_floats", kernel.info.query_floats},
                          {"partial_floats", kernel.info.partial_floats},
                          {"launch", launchFormula(kernel)}};
  if (kernel.rows)
    text["rows"] = kernel.rows;
  if (from) {
    text["name"] = from->name;
    text["threads"] = kernel.threads, text["shared_bytes"] = kernel.shared_bytes;
    if (from->registers)
      text["registers"] = from->registers;
  }
  kernels.push_back(std::move(text));
}

void Manifest::addModule(uint32_t format, const GpuModule &module) {
  modules.push_back(llvm::json::Object{{"format", int64_t(format)},
                                       {"name", module.name},
                                       {"target", module.target},
                                       {"level", module.level},
                                       {"ptx_sha256", module.ptxDigest},
                                       {"llvm", module.llvm},
                                       {"ptxas", module.ptxas}});
}

std::string Manifest::text(ArrayRef<::kvq::LibraryLayer> layers) && {
  llvm::json::Array table;
  for (const ::kvq::LibraryLayer &layer : layers)
    table.push_back(layer.format < 0
                        ? llvm::json::Value(nullptr)
                        : llvm::json::Object{{"format", layer.format},
                                             {"layer", int64_t(layer.constant_layer)}});
  llvm::json::Object manifest{
      {"library", int64_t(::kvq::kLibraryVersion)},
      {"interface", KVQ_INTERFACE_VERSION},
      {"compiler", llvm::json::Object{{"kvq", KVQ_VERSION}, {"llvm", LLVM_VERSION_STRING}}},
      {"layers", std::move(table)},
      {"formats", std::move(formats)},
      {"kernels", std::move(kernels)},
      {"modules", std::move(modules)}};
  std::string out;
  llvm::raw_string_ostream(out) << llvm::formatv("{0:2}", llvm::json::Value(std::move(manifest)));
  return out;
}

} // namespace mlir::kvq

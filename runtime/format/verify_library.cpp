// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/format/library_fields.h"

namespace kvq {
namespace library_file {
namespace {

constexpr int64_t kMaxFloats = int64_t(1) << 40;
constexpr int32_t kWarp = 32, kMaxThreads = 1024, kMaxSharedBytes = 1 << 18, kMaxRows = 4096;

/// What one target has and another has not: roles, and the shape of a block.
std::string checkTarget(const LibraryKernel &kernel) {
  const bool cpu = kernel.target == "cpu";
  if (kernel.role == (cpu ? KernelRole::plan : KernelRole::merge))
    return "expected a role of the target '" + kernel.target + "', got " + roleName(kernel.role);
  if (cpu ? kernel.threads != 0
          : kernel.threads < kWarp || kernel.threads > kMaxThreads || kernel.threads % kWarp)
    return "expected " +
           (cpu ? std::string("no threads of a block on the CPU")
                : "a multiple of " + std::to_string(kWarp) + " threads of a block, at most " +
                      std::to_string(kMaxThreads)) +
           ", got " + std::to_string(kernel.threads);
  const int32_t shared = cpu ? 0 : kMaxSharedBytes;
  if (kernel.shared_bytes < 0 || kernel.shared_bytes > shared)
    return "expected 0 to " + std::to_string(shared) + " bytes of shared memory, got " +
           std::to_string(kernel.shared_bytes);
  return "";
}

/// Query rows of a block of rows: a decode kernel is made for a number of them.
std::string checkRows(const LibraryKernel &kernel) {
  const bool decode = kernel.role == KernelRole::decode;
  const bool rows =
      decode || kernel.role == KernelRole::prepare || kernel.role == KernelRole::merge;
  const int32_t low = decode ? 1 : 0, high = rows ? kMaxRows : 0;
  if (kernel.rows >= low && kernel.rows <= high)
    return "";
  return "expected " + std::to_string(low) + " to " + std::to_string(high) +
         " query rows of a kernel of the role " + roleName(kernel.role) + ", got " +
         std::to_string(kernel.rows);
}

std::string checkTexts(const LibraryKernel &kernel) {
  auto bad = [](const char *what, const std::string &text, size_t bytes) -> std::string {
    if (text.size() < bytes && text.find('\0') == std::string::npos)
      return "";
    return std::string("expected a ") + what + " of at most " + std::to_string(bytes - 1) +
           " bytes without zero bytes, got " + std::to_string(text.size()) + " bytes";
  };
  std::string error = bad("target", kernel.target, kTargetBytes);
  if (error.empty())
    error = bad("level", kernel.level, kLevelBytes);
  if (error.empty())
    error = bad("symbol", kernel.symbol, kSymbolBytes);
  return error;
}

std::string checkIndex(const char *what, size_t count, uint32_t index) {
  if (index < count)
    return "";
  return "expected one of " + std::to_string(count) + " " + what + ", got number " +
         std::to_string(index);
}

std::string checkWorkspace(const WorkspaceFloats &info) {
  for (int64_t floats : {info.query_floats, info.partial_floats})
    if (floats < 0 || floats > kMaxFloats)
      return "expected workspace sizes of 0 to " + std::to_string(kMaxFloats) + " floats, got " +
             std::to_string(floats);
  return "";
}

} // namespace

std::string checkKernel(const LibraryKernel &kernel, size_t objects, size_t formats) {
  if (kernel.symbol.empty())
    return "expected a symbol for each kernel, got an empty one";
  const std::string where = "kernel '" + kernel.symbol + "': ";
  if (uint32_t(kernel.role) >= kKernelRoles)
    return where + "expected a role of 0 to " + std::to_string(kKernelRoles - 1) + ", got " +
           std::to_string(uint32_t(kernel.role));
  for (const std::string &error :
       {checkTexts(kernel), checkTarget(kernel), checkRows(kernel), checkWorkspace(kernel.info),
        checkIndex("objects", objects, kernel.object),
        checkIndex("formats", formats, kernel.format)})
    if (!error.empty())
      return where + error;
  return "";
}

std::string checkLayers(const std::vector<LibraryLayer> &layers, size_t formats) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const LibraryLayer &layer = layers[i];
    const std::string where = "layer " + std::to_string(i) + " of the model: ";
    if (layer.format < -1 || layer.format >= int64_t(formats))
      return where + "expected one of " + std::to_string(formats) + " formats, or -1, got " +
             std::to_string(layer.format);
    if (layer.constant_layer >= (layer.format < 0 ? 1 : kMaxLayers))
      return where + "expected a layer of the constants below " +
             std::to_string(layer.format < 0 ? 1 : kMaxLayers) + ", got " +
             std::to_string(layer.constant_layer);
  }
  return "";
}

} // namespace library_file

const char *roleName(KernelRole role) {
  static const char *const names[] = {"append",     "prepare",       "decode", "merge", "plan",
                                      "dequantize", "append_window", "demote", "commit"};
  return uint32_t(role) < kKernelRoles ? names[uint32_t(role)] : "unknown";
}

} // namespace kvq

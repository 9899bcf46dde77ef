// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-compile/BuildSummary.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::kvq {

std::string refusalSummary(const std::vector<TargetBuild> &builds) {
  if (builds.size() < 2)
    return "";
  const auto refused =
      llvm::count_if(builds, [](const TargetBuild &build) { return !build.refusal.empty(); });
  std::string text =
      llvm::formatv("kvq-compile: nothing was built: {0} of {1} refused\n", refused, builds.size());
  for (const TargetBuild &build : builds)
    text += llvm::formatv("  @{0} for {1}: {2}\n", build.cache, build.target,
                          build.refusal.empty() ? "not refused" : "refused: " + build.refusal);
  return text;
}

std::string formatSummary(const FormatArtifact &format) {
  const ::kvq::RecordLayout layout = ::kvq::buildRecord(format.method.record());
  return llvm::formatv("  @{0} for {1} layers: page {2}: {3} bytes, {4:F3} bits per element, "
                       "constants {5} bytes\n",
                       format.method.name, format.method.layers, layout.spec.page, layout.stride,
                       ::kvq::bitsPerElement(layout), format.constants.size());
}

std::string librarySummary(const ::kvq::LibraryContents &contents,
                           const std::vector<std::string> &formats,
                           std::vector<TargetBuild> builds) {
  std::string text;
  for (size_t format = 0; format < formats.size(); ++format) {
    text += formats[format];
    for (TargetBuild &build : builds) {
      if (build.format != format)
        continue;
      build.kernels =
          size_t(llvm::count_if(contents.kernels, [&](const ::kvq::LibraryKernel &kernel) {
            return kernel.format == build.format && kernel.target == build.target;
          }));
      text += llvm::formatv("    {0} ({1}): {2} kernels, {3} bytes, {4:F1} s\n", build.target,
                            build.level, build.kernels, build.bytes, build.seconds);
    }
  }
  const auto skipped = llvm::count_if(
      contents.layers, [](const ::kvq::LibraryLayer &layer) { return layer.format < 0; });
  if (skipped)
    text += llvm::formatv("  {0} layers that no cache serves\n", skipped);
  return text;
}

} // namespace mlir::kvq

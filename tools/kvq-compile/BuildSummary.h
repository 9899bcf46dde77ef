// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kvq-compile says about its work: per cache and target, what was built and what was refused.
#pragma once

#include "codegen/artifact/LibraryBuilder.h"

#include <string>
#include <vector>

namespace mlir::kvq {

/// The kernels of one cache for one target.
struct TargetBuild {
  size_t format = 0; ///< index of the cache among those of the module
  std::string cache, target;
  std::string level = {}; ///< of what was built: "x86-64-v3", "cubin", "ptx"
  size_t kernels = 0, bytes = 0;
  double seconds = 0;
  std::string refusal = {}; ///< the diagnostic; empty: not refused
};

/// Several lines on a compile that was refused; empty if there is one build alone: its diagnostic
/// says all.
std::string refusalSummary(const std::vector<TargetBuild> &builds);

/// One line on a format: layers, page, bits per element, constants.
std::string formatSummary(const FormatArtifact &format);

/// Lines on what a library holds. `formats` are formatSummary() of each.
std::string librarySummary(const ::kvq::LibraryContents &contents,
                           const std::vector<std::string> &formats,
                           std::vector<TargetBuild> builds);

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The report of a run as JSON: what tools/scripts/merge_verified.py reads, and what a later run
// resumes from.
#pragma once

#include "tools/gpu-check/Checks.h"

#include <string>
#include <vector>

namespace kvq {

/// Digest of the sources of the numeric suite that this program was built from.
std::string suiteDigest();

/// One library of a report, as the text of a JSON object on one line.
struct LibraryReport {
  std::string name;
  std::string digest; ///< SHA-256 of the file
  bool passed = false;
  std::string line;
};

struct LibraryRun {
  std::string name, digest, manifest, device;
  bool complete = false; ///< every check of the full plan on a CUDA device
  std::string failure;   ///< of the run as a whole; empty: none
  std::vector<CheckResult> checks;
  double seconds = 0;
};

LibraryReport reportLibrary(const LibraryRun &run);
/// Reads one line; throws std::runtime_error.
LibraryReport parseLibraryReport(const std::string &line);

/// Libraries of an earlier report of the same suite and plan; none if there is no such file.
/// Throws std::runtime_error when the file is something else.
std::vector<LibraryReport> readReport(const std::string &path, const std::string &plan);
void writeReport(const std::string &path, const std::string &plan,
                 const std::vector<LibraryReport> &libraries);

} // namespace kvq

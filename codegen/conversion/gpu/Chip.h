// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The NVIDIA chips that code can be generated for.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace mlir::kvq {

/// What a chip has beyond sm_80, as far as the kernels use it.
struct ChipFeatures {
  bool bulkCopy = true;           ///< cp.async.bulk and transaction barriers; else cp.async
  bool programmaticLaunch = true; ///< griddepcontrol
};

struct Chip {
  const char *name; ///< as LLVM and ptxas call it
  const char *ptx;  ///< LLVM feature of the PTX version
  const char *cuda; ///< first CUDA toolkit whose ptxas takes that PTX for the chip
  int sharedBytes;  ///< the most shared memory that a block may have
  ChipFeatures features;
};

/// The chip of that name; nothing for one that is not in the table, which LLVM would take silently.
std::optional<Chip> findChip(llvm::StringRef name);
/// Names of the table, "sm_80, sm_89, ...".
std::string chipNames();

} // namespace mlir::kvq

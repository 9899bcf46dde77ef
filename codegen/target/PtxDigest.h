// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The digest by which a kernel that passed on a GPU is known again (test/gpu/verified.json).
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::kvq {

/// `ptx` without comments and without the values of arrays, `= {1, 2}`, words separated by one
/// space.
std::string strippedPtx(llvm::StringRef ptx);

/// SHA-256 of that, 64 lower-case hexadecimal digits; as ptx_digest of
/// tools/scripts/merge_verified.py forms it.
std::string ptxDigest(llvm::StringRef ptx);

} // namespace mlir::kvq

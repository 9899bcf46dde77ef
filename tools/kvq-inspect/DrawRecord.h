// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A record as a picture.
#pragma once

#include "kvq/layout.h"

#include <string>

namespace kvq {

/// Larger records are not drawn: the picture would have too many cells to look at.
inline constexpr int64_t kMaxDrawnBytes = 128 * 1024;

/// SVG text: a cell for each of the `stride` bytes, 64 in a row, blocks and tiles apart; colours by
/// field, token, channels and lanes in the cell, and byteText() as its title. `name` may be any
/// text. Precondition: stride is at most kMaxDrawnBytes.
std::string drawRecord(const RecordLayout &layout, const std::string &name);

} // namespace kvq

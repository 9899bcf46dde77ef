// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What each byte of a record is: the inverse of bitAddress().
#pragma once

#include "kvq/layout.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvq {

/// An element that lies in a byte, or has a part there.
struct ByteElement {
  int32_t token = 0, channel = 0; ///< of the page; a channel of the head dim or above is padding
  int32_t bit = 0; ///< of the element's first bit, from this byte's; negative: in an earlier byte
};

struct RecordByte {
  int field = -1; ///< index in RecordLayout::fields; -1: padding at the end of the record
  std::vector<ByteElement> elements; ///< ascending by token, then channel; all of one field
  uint32_t lanes = 0;                ///< bit i: lane i of a warp reads the byte
};

/// All `stride` bytes of a record.
std::vector<RecordByte> mapBytes(const RecordLayout &layout);

/// Lanes, as bits, whose fragments of the integer MMAs hold the element: one for a code; for a
/// parameter all those that have its token, or its channel, among theirs. Lane = 4 g + t.
uint32_t lanesOf(const RecordSpec &spec, const Field &field, int64_t token, int64_t channel);

/// One line: offset, field and type, elements with their bits, lanes.
std::string byteText(const RecordLayout &layout, const std::vector<RecordByte> &bytes,
                     int64_t offset);

/// Ascending numbers, short: "7", "0-15", "5+32" for 5, 37, 69, ..., "1..90" for any others.
std::string shortText(const std::vector<int> &numbers);

/// The tokens, channels and lanes of a byte, ascending, each once.
std::vector<int> tokensOf(const RecordByte &byte);
std::vector<int> channelsOf(const RecordByte &byte);
std::vector<int> lanesOf(const RecordByte &byte);

} // namespace kvq

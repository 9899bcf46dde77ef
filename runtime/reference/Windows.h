// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sequences whose first and last tokens are kept in high precision: which token lies where, and the
// row that it stands for. 'Windows' in kvq/runtime.h has the rule.
#pragma once

#include "runtime/reference/Append.h"

namespace kvq {

/// Pages of one sequence in the order of their table, as bytes on this machine.
struct CachedPages {
  std::vector<const uint8_t *> pages;
  int64_t headStride = 0; ///< bytes from a KV head of a page to the next
  int64_t tokens = 0;     ///< of a page
};

/// Where the tokens of a sequence lie. Without windows: all in `records`.
struct CachedTokens {
  CachedPages sink, records, recent;
  int64_t quantized = 0; ///< tokens in records
};

enum class Segment : uint8_t { sink, records, recent };

struct TokenPlace {
  Segment segment;
  int64_t row; ///< counted through the pages of the segment
};

/// `capacity`: rows of the recent ring.
TokenPlace placeOf(const CacheMethod &method, int64_t quantized, int64_t capacity, int64_t token);

/// Bytes of the rows of one KV head in a page of windows.
int64_t windowBytes(const CacheMethod &method, int64_t pageTokens);

/// Stores a rotated row of side 'k' or 'v' as row `row` of a page and KV head of windows.
void putWindowRow(const CacheMethod &method, int64_t pageTokens, uint8_t *page, char side,
                  int64_t row, const std::vector<float> &rotated);

/// The row of dim numbers, in the model's basis, that a sequence holds for token `token` of KV head
/// `place.head` of the model, number `head` in the pages. `layout`: of the records.
std::vector<double> cachedRow(const CacheMethod &method, const RecordLayout &layout,
                              const Constants &constants, RowPlace place, const CachedTokens &cache,
                              int64_t head, char side, int64_t token);

} // namespace kvq

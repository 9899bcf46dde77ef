// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float64 attention over cached rows, on all processors. It calls the scalar oracle for each
// query head of a sequence, so its numbers are the oracle's, bit for bit.
#pragma once

#include "runtime/reference/Attention.h"
#include "runtime/reference/Windows.h"
#include "tools/gpu-check/Subject.h"

namespace kvq {

/// One sequence, and the query tokens at its end.
struct CachedSequence {
  CachedTokens tokens;
  int64_t length = 0;
  int64_t firstHead = 0, heads = 0; ///< KV heads of the model that the pages hold
  int group = 1;                    ///< query heads of a KV head
  int qLength = 1;                  ///< query tokens, the last of the sequence
  int64_t window = 0;               ///< tokens that a query attends; 0: the library's own
  std::vector<float> sinks;         ///< [heads * group] learned logits, or none
  std::vector<float> queries;       ///< [qLength, heads * group, keyDim], as handed to the library
};

/// What the library should return: out [qLength, heads * group, valueDim] and lse.
AttentionResult expectedAttention(const Subject &subject, const CachedSequence &sequence);

} // namespace kvq

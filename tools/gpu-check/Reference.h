// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float64 attention over dequantized pages, on all processors. It calls the scalar oracle for each
// query head of a sequence, so its numbers are the oracle's, bit for bit.
#pragma once

#include "runtime/reference/Attention.h"
#include "tools/gpu-check/Subject.h"

namespace kvq {

/// One sequence in pages, as bytes on this machine.
struct CachedSequence {
  int64_t length = 0, page = 0;
  int64_t firstHead = 0, heads = 0; ///< KV heads of the model that the pages hold
  int64_t headStride = 0;           ///< bytes between the records of two heads of a page
  std::vector<const uint8_t *> pages;
  int group = 1;              ///< query heads of a KV head
  int qLength = 1;            ///< query tokens, the last of the sequence
  int64_t window = 0;         ///< tokens that a query attends; 0: all
  std::vector<float> sinks;   ///< [heads * group] learned logits, or none
  std::vector<float> queries; ///< [qLength, heads * group, keyDim], as handed to the library
};

/// What the library should return: out [qLength, heads * group, valueDim] and lse.
AttentionResult expectedAttention(const Subject &subject, const CachedSequence &sequence);

} // namespace kvq

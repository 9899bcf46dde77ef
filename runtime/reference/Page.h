// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements of a page, found through the fields of its layout and nothing else.
#pragma once

#include "kvq/layout.h"

#include <vector>

namespace kvq {

inline const RecordSide &sideOf(const RecordSpec &spec, char side) {
  return side == 'k' ? spec.k : spec.v;
}

/// Bits of one element; 0 where no field of the kind covers the channel. A code in several bit
/// planes is put together.
uint32_t getElement(const RecordLayout &layout, const uint8_t *page, char side, FieldKind kind,
                    int64_t token, int64_t channel);
void putElement(const RecordLayout &layout, uint8_t *page, char side, FieldKind kind, int64_t token,
                int64_t channel, uint32_t bits);

/// What a page holds of one token of K or V, as bits. Parameters have one element per channel
/// group.
struct TokenBits {
  std::vector<uint8_t> codes; ///< dim; 8-bit codes are two's complement
  std::vector<uint32_t> scale, zero;
};

/// Layouts with parameters per token and channel group only. Padded channels are written as code 0.
void putToken(const RecordLayout &layout, uint8_t *page, char side, int64_t token,
              const TokenBits &bits);
TokenBits getToken(const RecordLayout &layout, const uint8_t *page, char side, int64_t token);

} // namespace kvq

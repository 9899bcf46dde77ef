// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code layouts of published methods. They are fields like those of a record, so one loop converts
// any layout to any other: read at bitAddress of one field, write at bitAddress of the other.
#pragma once

#include "kvq/bits.h"
#include "kvq/layout.h"

namespace kvq {

enum class PublishedOrder : uint8_t {
  oscar,    ///< OSCAR, K and V: byte j of a token's row holds channels j, j + D b / 8, ... from its
            ///< low bits up
  channels, ///< V of KIVI and KVarN: consecutive channels of a token
  tokens,   ///< K of KIVI and KVarN: consecutive tokens of a channel
};

/// Unsigned codes of `tokens` tokens of one KV head in a published order. For `oscar`, dim must be
/// a multiple of 8 / bits.
inline Field publishedCodes(PublishedOrder order, char side, int dim, int bits, int64_t tokens) {
  const int64_t row = int64_t(dim) * bits;
  Field field;
  field.side = side;
  field.width = bits;
  field.endChannel = dim;
  field.size = (tokens * row + 7) / 8;
  if (order == PublishedOrder::tokens) {
    field.token = {{tokens, bits}};
    field.channel = {{dim, tokens * bits}};
    return field;
  }
  field.token = {{tokens, row}};
  if (order == PublishedOrder::oscar)
    field.channel = {{row / 8, 8}, {8 / bits, bits}};
  else
    field.channel = {{dim, bits}};
  return field;
}

/// Moves the elements of channels [first, end) of `tokens` tokens that both fields hold. Signed
/// codes keep their bits.
inline void convertField(const Field &from, const uint8_t *source, const Field &to, uint8_t *target,
                         int64_t tokens) {
  const int first = std::max(from.firstChannel, to.firstChannel);
  const int end = std::min(from.endChannel, to.endChannel);
  for (int64_t token = 0; token < tokens; ++token)
    for (int channel = first; channel < end; ++channel)
      writeBits(target, bitAddress(to, token, channel), to.width,
                readBits(source, bitAddress(from, token, channel), from.width));
}

} // namespace kvq

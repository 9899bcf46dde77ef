// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a row of the model to codes and parameters: the steps of a side, then the writer's rule of
// the record. All arithmetic is fp32 with IEEE division and without contraction; this file's build
// turns contraction off.
#pragma once

#include "runtime/reference/Constants.h"

namespace kvq {

struct QuantizedRow {
  std::vector<float> rotated;     ///< after the last center or rotate step, finite
  std::vector<float> clipped;     ///< what is rounded
  std::vector<uint8_t> codes;     ///< as stored: 8-bit codes are two's complement
  std::vector<float> scale, zero; ///< of each group, as stored; zero is empty without one
  std::vector<uint32_t> scaleBits, zeroBits; ///< the same as bits of the parameter type
};

/// Empty when this oracle interprets the side; else one sentence naming what it does not.
std::string refuseSide(const SideMethod &side);

/// `row` holds dim numbers of the side's row type. Precondition: refuseSide and verifyMethod pass.
QuantizedRow quantizeRow(const SideMethod &side, const Constants &constants, RowPlace place,
                         const float *row);

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tokens into pages and back.
#pragma once

#include "runtime/reference/Page.h"
#include "runtime/reference/QuantizeRow.h"

namespace kvq {

/// Quantizes one token of one KV head into `page` (layout.stride bytes of record) at `position`, 0
/// to page tokens - 1. Rows hold dim numbers of the row type of their side. No byte of another
/// token is touched.
void appendToken(const CacheMethod &method, const RecordLayout &layout, const Constants &constants,
                 RowPlace place, uint8_t *page, int64_t position, const float *key,
                 const float *value);

/// In which basis rows are returned.
enum class RowBasis : uint8_t {
  rotated, ///< as quantized: code times scale plus zero
  model,   ///< as appended: rotations undone, means added back
};

/// Undoes the steps of a side on a stored row: rotations backwards, means added back. Clips stay.
void toModelBasis(const SideMethod &side, const Constants &constants, RowPlace place,
                  std::vector<double> &row);

/// The row of dim numbers that a page holds for side 'k' or 'v' at `position`, in f64 throughout.
std::vector<double> dequantize(const CacheMethod &method, const RecordLayout &layout,
                               const Constants &constants, RowPlace place, const uint8_t *page,
                               char side, int64_t position, RowBasis basis = RowBasis::model);

} // namespace kvq

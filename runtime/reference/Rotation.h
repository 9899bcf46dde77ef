// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotations of rows. The fp32 form defines the bits of a rotated row; the f64 form is for queries
// and outputs.
#pragma once

#include "runtime/reference/Constants.h"

namespace kvq {

/// x -> x F_0 F_1 ... in the precision of T (float or double), without rounding to an element type.
template <typename T>
void rotateRow(const std::vector<RotationFactor> &factors, const Constants &constants,
               RowPlace place, std::vector<T> &row);

/// The inverse: x -> x ... F_1^-1 F_0^-1.
template <typename T>
void unrotateRow(const std::vector<RotationFactor> &factors, const Constants &constants,
                 RowPlace place, std::vector<T> &row);

} // namespace kvq

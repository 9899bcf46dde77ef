// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dequantization of one side of a cache as a composition of factors, ready to be folded.
#pragma once

#include "passes/analysis/Folding.h"
#include "runtime/format/method.h"

namespace mlir::kvq::folding {

/// The composition that undoes `side`, from the code outward: the parameter form, the outer scale,
/// then the steps of the pipeline in reverse (clip has no inverse and adds nothing). `block` is the
/// number of tokens that share channel parameters. Factors are named mid, book, scale, zero, outer,
/// and after the constants of rotations and centers.
///
/// `centredCodes` splits the code of an affine form into mid and deviation, code = (code - mid) +
/// mid, so that rounded integer weights carry the deviation only and exact weights the middle of
/// the group: a rounding error of the weights then averages out instead of moving the result toward
/// the group's minimum.
Composition dequantization(const ::kvq::SideMethod &side,
                           const std::vector<::kvq::Constant> &constants, int block,
                           bool centredCodes = false);

} // namespace mlir::kvq::folding

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Workspace of the CPU decode kernels, in floats (kernel_abi.h).
#pragma once

#include <cstdint>

namespace mlir::kvq {

/// The most query rows of a block.
inline constexpr int kMaxRowClass = 16;

/// The query workspace of one segment (kernel_abi.h), `queries` being the row class: queries x
/// keyDim values in the order of the dot, queries x keyGroups sums, queries shifts. The partial
/// result of one split: queries x valueDim outputs, queries maxima, queries sums.
struct Workspace {
  int64_t queries, keyDim, keyGroups, valueDim;

  int64_t querySums() const { return queries * keyDim; }
  int64_t queryShifts() const { return querySums() + queries * keyGroups; }
  int64_t queryFloats() const { return roundUp(queryShifts() + queries); }
  int64_t partialMaxima() const { return queries * valueDim; }
  int64_t partialSums() const { return partialMaxima() + queries; }
  int64_t partialFloats() const { return roundUp(partialSums() + queries); }

private:
  /// Whole cache lines, so that work items do not share one.
  static int64_t roundUp(int64_t floats) { return (floats + 15) / 16 * 16; }
};

} // namespace mlir::kvq

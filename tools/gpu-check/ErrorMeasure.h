// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The error of an output before it was rounded to its element type, from what is left after.
//
// A rounded number says that the unrounded one lies in an interval of one unit of the last place,
// u. Let d be the distance of the expected number from that interval: 0 for most elements when the
// error e is well below u. Two estimates of the relative l2 error, of which the larger one counts:
//   - |d| / |expected|: a lower bound whatever the data, and close where e is above u (f32);
//   - for e below u: the expected number lies anywhere in its unit, so E[d^2] = E[|e|^3] / (3 u).
//     For normal e of deviation s that is 0.532 s^3 / u; with s the same part of the root mean
//     square r of each row, part = (sum d^2 / (0.532 sum r^3 / u))^(1/3).
// Few elements cross into another interval, so the second estimate of one row of 128 is good to
// about 30 %; numbers that tend to lie on the border of an interval (a softmax with one key) raise
// it.
#pragma once

#include "kvq/layout.h"

namespace kvq {

class ErrorMeasure {
public:
  /// Adds an element: the bits that were got, and the number that was expected, in a row with root
  /// mean square `rms`.
  void add(ElementType type, uint32_t got, double expected, double rms);
  void add(const ErrorMeasure &other);

  /// Relative l2 error; NaN when an element was not finite.
  double relative() const;

private:
  double distance = 0, norm = 0; ///< sums of d^2 and of expected^2
  double cubes = 0;              ///< sum of r^3 / u
};

} // namespace kvq

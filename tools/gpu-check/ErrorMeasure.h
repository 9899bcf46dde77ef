// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The error of an output before it was rounded to its element type, from what is left after.
//
// A rounded number says that the unrounded one lies in an interval of one unit of the last place,
// u. Let d be the distance of the expected number from that interval: mostly 0 when the error e is
// well below u, since then few numbers cross into another interval. The expected number lies
// anywhere in its unit, so for normal e of deviation s
//
//   E[d^2] = E[|e|^3] / 3u = 0.532 s^3 / u   for s << u,   and   s^2   for s >> u;
//
// z / sqrt(z^2 + 3.53) times s^2, with z = s / u, is within 8 % of the integral between them. The
// estimate is the one part of the root mean square of each row that, as s, gives the sum of d^2
// that was seen. Of a row of 128 numbers it is good to about 30 %; numbers that tend to lie on the
// border of an interval (a softmax with one key) raise it.
#pragma once

#include "kvq/layout.h"

#include <array>

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
  static constexpr int kPerOctave = 4, kLowest = -8 * kPerOctave;

  double distance = 0; ///< sum of d^2
  /// Sum of rms^2 over the elements with log2(rms / u) near (index + kLowest) / kPerOctave.
  std::array<double, 48 * kPerOctave> squares = {};
};

} // namespace kvq

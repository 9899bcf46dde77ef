// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The generator behind every golden value: 64-bit linear congruential, of which 24 bits are used.
// It is the same on every platform and every standard library.
#pragma once

#include <cstdint>

namespace kvq::test {

class Lcg {
public:
  explicit Lcg(uint64_t seed = 1) : state(seed) {}

  /// The next 24 bits.
  uint32_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return uint32_t(state >> 40);
  }
  /// Uniform in [0, 1), a multiple of 2^-24.
  double uniform() { return next() / 16777216.0; }

private:
  uint64_t state;
};

} // namespace kvq::test

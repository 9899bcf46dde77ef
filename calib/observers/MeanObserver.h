// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Streaming mean of rows, per head and channel. Memory does not grow with the number of rows.
#pragma once

#include <Eigen/Core>

#include <cstdint>
#include <string>
#include <vector>

namespace kvq {

class MeanObserver {
public:
  MeanObserver(int64_t heads, int64_t dim);

  /// Adds `tokens` tokens; rows [tokens, heads, dim] f32. A value that is not finite is an error
  /// that names its place, and nothing is added.
  std::string add(const float *rows, int64_t tokens);

  /// Adds what another observer saw. Observers of shards merge to the observer of the whole: sums
  /// are kept in f64, in which the sum of 16-bit floats of like magnitude is exact.
  std::string merge(const MeanObserver &other);

  int64_t heads() const { return sums.cols(); }
  int64_t dim() const { return sums.rows(); }
  int64_t tokens() const { return count; }

  /// Mean over the tokens, [heads, dim], rounded once to f32; zero if no token was added.
  std::vector<float> mean() const;

private:
  Eigen::ArrayXXd sums; ///< a column per head
  int64_t count = 0;
};

} // namespace kvq

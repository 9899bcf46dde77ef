// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "calib/observers/MeanObserver.h"

#include <cmath>

namespace kvq {

MeanObserver::MeanObserver(int64_t heads, int64_t dim) : sums(Eigen::ArrayXXd::Zero(dim, heads)) {}

std::string MeanObserver::add(const float *rows, int64_t tokens) {
  const int64_t row = sums.size();
  for (int64_t i = 0; i < tokens * row; ++i)
    if (!std::isfinite(rows[i]))
      return "token " + std::to_string(count + i / row) + ", head " +
             std::to_string(i % row / dim()) + ", channel " + std::to_string(i % dim()) +
             ": expected a finite value, got " + std::to_string(rows[i]);
  for (int64_t t = 0; t < tokens; ++t)
    sums += Eigen::Map<const Eigen::ArrayXXf>(rows + t * row, dim(), heads()).cast<double>();
  count += tokens;
  return "";
}

std::string MeanObserver::merge(const MeanObserver &other) {
  if (other.heads() != heads() || other.dim() != dim())
    return "expected an observer of " + std::to_string(heads()) + " heads of dim " +
           std::to_string(dim()) + ", got " + std::to_string(other.heads()) + " heads of dim " +
           std::to_string(other.dim());
  sums += other.sums;
  count += other.count;
  return "";
}

std::vector<float> MeanObserver::mean() const {
  std::vector<float> mean(size_t(sums.size()));
  Eigen::Map<Eigen::ArrayXXf>(mean.data(), dim(), heads()) =
      (sums / double(count ? count : 1)).cast<float>();
  return mean;
}

} // namespace kvq

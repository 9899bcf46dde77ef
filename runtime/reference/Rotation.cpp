// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/reference/Rotation.h"

#include <cmath>

namespace kvq {

/// Sylvester order: stages of stride 1, 2, 4, ..., then one multiplication.
template <typename T> static void hadamard(T *row, int order) {
  for (int stride = 1; stride < order; stride *= 2)
    for (int i = 0; i < order; ++i)
      if (!(i & stride)) {
        const T a = row[i], b = row[i + stride];
        row[i] = a + b;
        row[i + stride] = a - b;
      }
  const T scale = T(1 / std::sqrt(double(order)));
  for (int i = 0; i < order; ++i)
    row[i] *= scale;
}

/// x R, or x R^T; each sum runs over the input channels in order.
template <typename T> static void dense(std::vector<T> &row, const float *matrix, bool transposed) {
  const size_t dim = row.size();
  std::vector<T> out(dim);
  for (size_t j = 0; j < dim; ++j)
    for (size_t i = 0; i < dim; ++i)
      out[j] += row[i] * T(transposed ? matrix[j * dim + i] : matrix[i * dim + j]);
  row = std::move(out);
}

template <typename T>
static void apply(const RotationFactor &factor, bool inverse, const Constants &constants,
                  RowPlace place, std::vector<T> &row) {
  if (factor.kind == RotationFactor::Kind::dense) {
    const float *matrix = constants.slice(factor.constant, place.layer, place.head);
    return dense(row, matrix, factor.inverse != inverse);
  }
  for (size_t block = 0; block < row.size(); block += factor.order)
    hadamard(row.data() + block, factor.order);
}

template <typename T>
void rotateRow(const std::vector<RotationFactor> &factors, const Constants &constants,
               RowPlace place, std::vector<T> &row) {
  for (const RotationFactor &factor : factors)
    apply(factor, /*inverse=*/false, constants, place, row);
}

template <typename T>
void unrotateRow(const std::vector<RotationFactor> &factors, const Constants &constants,
                 RowPlace place, std::vector<T> &row) {
  for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor)
    apply(*factor, /*inverse=*/true, constants, place, row);
}

template void rotateRow(const std::vector<RotationFactor> &, const Constants &, RowPlace,
                        std::vector<float> &);
template void rotateRow(const std::vector<RotationFactor> &, const Constants &, RowPlace,
                        std::vector<double> &);
template void unrotateRow(const std::vector<RotationFactor> &, const Constants &, RowPlace,
                          std::vector<float> &);
template void unrotateRow(const std::vector<RotationFactor> &, const Constants &, RowPlace,
                          std::vector<double> &);

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kinds of rows that quantizers and kernels are tried on. A test prints the name of its case, which
// holds the seed.
#pragma once

#include "test/support/Lcg.h"

#include <cmath>
#include <string>
#include <vector>

namespace kvq::test {

/// Gaussian numbers (Box-Muller).
class Gauss {
public:
  explicit Gauss(uint64_t seed) : random(seed) {}

  double next() {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    return radius * std::cos(2 * 3.14159265358979323846 * random.uniform());
  }
  double uniform() { return random.uniform(); }

private:
  Lcg random;
};

enum class DataKind : uint8_t {
  random, ///< Gaussian, variance 1
  heavy, ///< Gaussian times exp of a Gaussian per channel and per element: few large channels, long
         ///< tails
  dominant, ///< one key that takes most of the probability of every query, and a flat tail: the
            ///< other keys are tiny
};

struct DataCase {
  DataKind kind = DataKind::random;
  double valueMean = 0; ///< 1.5: values are off centre
  uint64_t seed = 1;
};

/// The three kinds, each with values of mean 0 and 1.5.
inline std::vector<DataCase> dataCases(uint64_t seed) {
  std::vector<DataCase> out;
  for (DataKind kind : {DataKind::random, DataKind::heavy, DataKind::dominant})
    for (double mean : {0.0, 1.5})
      out.push_back({kind, mean, seed + out.size()});
  return out;
}

inline std::string caseName(const DataCase &data) {
  const char *const names[] = {"random", "heavy-tailed", "dominant token"};
  return std::string(names[int(data.kind)]) + (data.valueMean ? ", value mean 1.5" : "") +
         ", seed " + std::to_string(data.seed);
}

/// Rows of one sequence: queries [qHeads, keyDim], keys [kvHeads, length, keyDim], values
/// [kvHeads, length, valueDim].
struct DataRows {
  std::vector<float> queries, keys, values;
};

namespace data_detail {

inline std::vector<float> gaussRows(Gauss &random, int64_t rows, int dim, bool heavy, double mean) {
  std::vector<double> channel(dim, 1);
  for (int d = 0; heavy && d < dim; ++d)
    channel[d] = std::exp(random.next());
  std::vector<float> out;
  out.reserve(rows * dim);
  for (int64_t row = 0; row < rows; ++row)
    for (int d = 0; d < dim; ++d) {
      const double tail = heavy ? std::exp(random.next() / 2) : 1;
      out.push_back(float(random.next() * channel[d] * tail + mean));
    }
  return out;
}

} // namespace data_detail

/// Logits are made for scale 1 / sqrt(keyDim).
inline DataRows makeRows(const DataCase &data, int qHeads, int kvHeads, int64_t length, int keyDim,
                         int valueDim) {
  using data_detail::gaussRows;
  Gauss random(data.seed);
  const bool heavy = data.kind == DataKind::heavy;
  DataRows out;
  out.queries = gaussRows(random, qHeads, keyDim, false, 0);
  out.keys = gaussRows(random, kvHeads * length, keyDim, heavy, 0);
  out.values = gaussRows(random, kvHeads * length, valueDim, heavy, data.valueMean);
  if (data.kind != DataKind::dominant)
    return out;
  // Queries of a head group share a direction u; the dominant key is 12 sqrt(D) u / |u|^2, the
  // others shrink by 20, so its logit is near 12 and theirs near 0: e^12 = 1.6e5 against a tail of
  // `length` keys.
  for (int head = 0; head < kvHeads && length; ++head) {
    std::vector<float> direction = gaussRows(random, 1, keyDim, false, 0);
    double norm = 0;
    for (float x : direction)
      norm += double(x) * x;
    const int group = qHeads / kvHeads;
    for (int q = head * group; q < (head + 1) * group; ++q)
      for (int d = 0; d < keyDim; ++d)
        out.queries[q * keyDim + d] = float(direction[d] + 0.1 * out.queries[q * keyDim + d]);
    float *keys = out.keys.data() + head * length * keyDim;
    const int64_t place = int64_t(random.uniform() * double(length));
    for (int64_t i = 0; i < length * keyDim; ++i)
      keys[i] = float(0.05 * keys[i]);
    for (int d = 0; d < keyDim; ++d)
      keys[place * keyDim + d] = float(12 * std::sqrt(double(keyDim)) * direction[d] / norm);
  }
  return out;
}

} // namespace kvq::test

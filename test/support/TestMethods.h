// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Methods and constants made by hand, for tests of what reads methods.
#pragma once

#include "runtime/reference/Constants.h"
#include "test/support/DataKinds.h"

namespace kvq::test {

inline Step centerStep(int constant, ElementType result = ElementType::f32) {
  Step step;
  step.constant = constant;
  step.result = result;
  return step;
}

inline RotationFactor hadamardFactor(int order, bool blocks = false) {
  RotationFactor factor;
  factor.kind = blocks ? RotationFactor::Kind::block_hadamard : RotationFactor::Kind::hadamard;
  factor.order = order;
  return factor;
}

inline RotationFactor denseFactor(int constant, bool inverse = false) {
  RotationFactor factor;
  factor.kind = RotationFactor::Kind::dense;
  factor.constant = constant;
  factor.inverse = inverse;
  return factor;
}

inline Step rotateStep(std::vector<RotationFactor> factors, ElementType result = ElementType::f32) {
  Step step;
  step.kind = Step::Kind::rotate;
  step.factors = std::move(factors);
  step.result = result;
  return step;
}

inline Step clipStep(Step::Clip clip, double value, bool perGroup = false) {
  Step step;
  step.kind = Step::Kind::clip;
  step.clip = clip;
  step.value = value;
  step.per_group = perGroup;
  return step;
}

/// A method under construction, with the blob of its constants.
struct TestMethod {
  CacheMethod method;
  std::vector<float> blob;

  TestMethod(const SideMethod &key, const SideMethod &value, int kvHeads = 1, int layers = 1) {
    method.name = "test";
    method.key = key;
    method.value = value;
    method.kv_heads = kvHeads;
    method.q_heads = 2 * kvHeads;
    method.layers = layers;
    method.attention.scale = float(1 / std::sqrt(double(key.record.dim)));
  }

  Constants constants() const { return Constants(method, blob.data()); }

  /// Appends a constant [layers, kv_heads, tail...] and returns its index.
  int add(const std::string &name, const std::vector<int64_t> &tail,
          const std::vector<float> &values) {
    Constant constant;
    constant.name = name;
    constant.shape = {method.layers, method.kv_heads};
    constant.shape.insert(constant.shape.end(), tail.begin(), tail.end());
    blob.resize((blob.size() + 15) / 16 * 16);
    constant.offset = int64_t(4 * blob.size());
    blob.insert(blob.end(), values.begin(), values.end());
    method.constants.push_back(constant);
    return int(method.constants.size()) - 1;
  }

  int addMean(int dim, uint64_t seed) {
    Gauss random(seed);
    std::vector<float> mean(method.layers * method.kv_heads * dim);
    for (float &x : mean)
      x = float(2 * random.next());
    return add("mean" + std::to_string(seed), {dim}, mean);
  }

  /// Orthogonal matrices, by Gram-Schmidt of Gaussian rows.
  int addRotation(int dim, uint64_t seed) {
    Gauss random(seed);
    std::vector<float> out;
    for (int64_t slice = 0; slice < int64_t(method.layers) * method.kv_heads; ++slice) {
      std::vector<std::vector<double>> rows(dim, std::vector<double>(dim));
      for (int i = 0; i < dim; ++i) {
        for (double &x : rows[i])
          x = random.next();
        for (int pass = 0; pass < 2; ++pass)
          for (int j = 0; j < i; ++j)
            subtract(rows[i], rows[j]);
        normalize(rows[i]);
        out.insert(out.end(), rows[i].begin(), rows[i].end());
      }
    }
    return add("rotation" + std::to_string(seed), {dim, dim}, out);
  }

private:
  static double dot(const std::vector<double> &a, const std::vector<double> &b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i)
      sum += a[i] * b[i];
    return sum;
  }
  static void subtract(std::vector<double> &row, const std::vector<double> &unit) {
    const double along = dot(row, unit);
    for (size_t i = 0; i < row.size(); ++i)
      row[i] -= along * unit[i];
  }
  static void normalize(std::vector<double> &row) {
    const double norm = std::sqrt(dot(row, row));
    for (double &x : row)
      x /= norm;
  }
};

/// A side without steps and with rows of f32.
inline SideMethod plainSide(const RecordSide &record) {
  SideMethod side;
  side.record = record;
  side.rows = ElementType::f32;
  return side;
}

} // namespace kvq::test

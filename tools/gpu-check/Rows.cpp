// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/Rows.h"

#include "runtime/reference/convert.h"
#include "tools/device/Parallel.h"

#include <limits>
#include <random>
#include <stdexcept>

namespace kvq {
namespace {

constexpr int64_t kBlockTokens = 256;

/// Seeds of independent streams: the finalizer of MurmurHash3 over a counter.
uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t h = a * 0x9e3779b97f4a7c15u + b;
  h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
  h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 33;
}

/// Gaussian numbers by Box and Muller, two at a time.
class Normal {
public:
  explicit Normal(uint64_t seed) : state(seed) {}

  float next() {
    if (have) {
      have = false;
      return second;
    }
    const float radius = std::sqrt(-2 * std::log(1 - uniform()));
    const float angle = 6.2831853f * uniform();
    have = true, second = radius * std::sin(angle);
    return radius * std::cos(angle);
  }
  /// In [0, 1).
  float uniform() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return float(state >> 40) * 0x1p-24f;
  }

private:
  uint64_t state;
  float second = 0;
  bool have = false;
};

/// One row of keys or values.
void makeRow(const RowKind &kind, Normal &random, bool key, float *row, int dim) {
  const float mean = key ? 0 : float(kind.valueMean);
  float scale = key && kind.shape == RowKind::Shape::dominant ? 0.05f : 1;
  if (kind.shape == RowKind::Shape::heavy) {
    scale = 0.6f * std::min(std::exp(1.1f * random.next()), 9.0f);
    if (random.uniform() < 1.0f / 1024)
      scale *= 4;
  }
  for (int d = 0; d < dim; ++d)
    row[d] = scale * random.next() + mean;
}

void makeQuery(const RowKind &kind, Normal &random, float *row, int dim) {
  for (int d = 0; d < dim; ++d) {
    row[d] = random.next();
    if (kind.shape != RowKind::Shape::heavy)
      continue;
    row[d] *= 0.5f * std::exp(0.9f * random.next());
    if (random.uniform() < 1.0f / 64)
      row[d] *= 5;
  }
}

/// Turns the queries of each head towards one direction u, and one key to it with a logit of
/// log(tokens) + 0, 2 or 6 by head: about 1/2, 0.9 or almost all of the probability.
void addDominant(const RowShape &shape, uint64_t seed, SequenceRows &rows) {
  Normal random(mix(seed, 77));
  const int dim = shape.keyDim;
  for (int head = 0; head < shape.heads; ++head) {
    std::vector<float> direction(dim);
    double norm = 0;
    for (float &x : direction) {
      x = random.next();
      norm += double(x) * x;
    }
    for (int64_t i = int64_t(head) * shape.group * dim; i < int64_t(head + 1) * shape.group * dim;
         ++i)
      rows.queries[i] = direction[i % dim] + 0.1f * rows.queries[i];
    if (!shape.tokens)
      continue;
    const int64_t place = int64_t(random.uniform() * float(shape.tokens)) % shape.tokens;
    const double logit = std::log(double(shape.tokens)) + std::vector<double>{2, 0, 6}[head % 3];
    for (int d = 0; d < dim; ++d)
      rows.keys[(place * shape.heads + head) * dim + d] =
          float(logit / (norm * shape.scale) * direction[d]);
  }
}

} // namespace

std::string RowKind::name() const {
  const char *const names[] = {"random", "heavy", "dominant"};
  return std::string(names[int(shape)]) + (valueMean != 0 ? "+mean" : "");
}

RowKind RowKind::parse(const std::string &name) {
  for (Shape shape : {Shape::random, Shape::heavy, Shape::dominant})
    for (double mean : {0.0, 1.5})
      if (RowKind kind = {shape, mean}; kind.name() == name)
        return kind;
  throw std::runtime_error(
      "--data: expected random, heavy or dominant, each also with +mean, got '" + name + "'");
}

SequenceRows makeSequence(const RowKind &kind, const RowShape &shape, uint64_t seed) {
  SequenceRows out;
  out.keys.resize(shape.tokens * shape.heads * shape.keyDim);
  out.values.resize(shape.tokens * shape.heads * shape.valueDim);
  out.queries.resize(int64_t(shape.heads) * shape.group * shape.keyDim);
  parallelFor((shape.tokens + kBlockTokens - 1) / kBlockTokens, [&](int64_t block) {
    Normal random(mix(seed, 1000 + block));
    const int64_t end = std::min(shape.tokens, (block + 1) * kBlockTokens) * shape.heads;
    for (int64_t row = block * kBlockTokens * shape.heads; row < end; ++row) {
      makeRow(kind, random, true, &out.keys[row * shape.keyDim], shape.keyDim);
      makeRow(kind, random, false, &out.values[row * shape.valueDim], shape.valueDim);
    }
  });
  Normal random(mix(seed, 1));
  for (int64_t head = 0; head < int64_t(shape.heads) * shape.group; ++head)
    makeQuery(kind, random, &out.queries[head * shape.keyDim], shape.keyDim);
  if (kind.shape == RowKind::Shape::dominant)
    addDominant(shape, seed, out);
  return out;
}

std::vector<float> queriesByToken(const std::vector<float> &queries, int64_t heads, int64_t tokens,
                                  int64_t size) {
  std::vector<float> out;
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t head = 0; head < heads; ++head) {
      const auto from = queries.begin() + (head * tokens + token) * size;
      out.insert(out.end(), from, from + size);
    }
  return out;
}

void addHardRows(std::vector<float> &rows, int64_t dim, uint64_t seed) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> same = {0.0f, -0.0f, 1.0f, -3.25f, 1e-30f, 6e-8f, 3e38f, -7e4f, inf};
  std::mt19937_64 random(seed);
  auto change = [&](float *row, auto fn) { std::transform(row, row + dim, row, fn); };
  for (int64_t i = 0; i < int64_t(rows.size()) / dim; i += 3) {
    float *row = &rows[i * dim];
    switch (random() % 6) {
    case 0:
      std::fill(row, row + dim, same[random() % same.size()]);
      break;
    case 1:
      row[random() % dim] = NAN;
      row[random() % dim] = random() % 2 ? inf : -inf;
      break;
    case 2: // far from zero and narrow: the zero form overflows
      change(row, [](float x) { return 1000 + x * 1e-3f; });
      break;
    case 3: // on rounding ties
      change(row, [](float x) { return std::rint(2 * x) / 2; });
      break;
    case 4: // subnormal in f16
      change(row, [](float x) { return x * 1e-6f; });
      break;
    default: // zeros of both signs among numbers of one sign
      change(row, [](float x) { return x < 0 ? -0.0f : x; });
    }
  }
}

EncodedRows encodeRows(ElementType type, const std::vector<float> &rows, int64_t outer,
                       int64_t inner, int64_t dim, int64_t pad) {
  EncodedRows out;
  const int64_t size = elementBytes(type);
  out.innerStride = dim * size + pad;
  out.outerStride = inner * out.innerStride + pad;
  out.bytes.assign(outer * out.outerStride, 0xff);
  parallelFor((outer + kBlockTokens - 1) / kBlockTokens, [&](int64_t block) {
    for (int64_t o = block * kBlockTokens; o < std::min(outer, (block + 1) * kBlockTokens); ++o)
      for (int64_t i = 0; i < inner; ++i)
        for (int64_t d = 0; d < dim; ++d) {
          const uint32_t bits = encodeElement(type, rows[(o * inner + i) * dim + d]);
          std::memcpy(&out.bytes[o * out.outerStride + i * out.innerStride + d * size], &bits,
                      size);
        }
  });
  return out;
}

void roundRows(ElementType type, std::vector<float> &rows) {
  parallelFor((int64_t(rows.size()) + 65535) / 65536, [&](int64_t block) {
    const int64_t end = std::min<int64_t>(int64_t(rows.size()), (block + 1) * 65536);
    for (int64_t i = block * 65536; i < end; ++i)
      rows[i] = roundToElement(type, rows[i]);
  });
}

} // namespace kvq

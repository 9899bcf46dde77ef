// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of sequences of the three data kinds, made on all processors; everything follows from the
// seed.
#pragma once

#include "runtime/format/method.h"

#include <string>
#include <vector>

namespace kvq {

struct RowKind {
  enum class Shape : uint8_t {
    random, ///< standard normal
    heavy,  ///< scales of tokens log-normal up to 9, one in 1024 four times that; queries likewise
            ///< by channel: near one-hot probabilities and large logits
    dominant, ///< one key that has a good part of the probability of every query, and a flat tail
  };
  Shape shape = Shape::random;
  double valueMean = 0; ///< 1.5: values are off centre

  std::string name() const; ///< "heavy", "heavy+mean"
  /// Of a name; throws std::runtime_error.
  static RowKind parse(const std::string &name);
};

struct RowShape {
  int64_t tokens = 0;
  int heads = 1, group = 1; ///< KV heads, and query heads of each
  int keyDim = 0, valueDim = 0;
  float scale = 0; ///< of the logits
};

/// Of one sequence.
struct SequenceRows {
  std::vector<float> keys, values; ///< [tokens, heads, dim]
  std::vector<float> queries;      ///< [heads * group, keyDim]
};

SequenceRows makeSequence(const RowKind &kind, const RowShape &shape, uint64_t seed);

/// Queries [heads, tokens, size] as [tokens, heads, size].
std::vector<float> queriesByToken(const std::vector<float> &queries, int64_t heads, int64_t tokens,
                                  int64_t size);

/// Overwrites every third row with what breaks quantizers: constant rows, NaN, infinities, narrow
/// rows far from zero, ties, subnormals, zeros of both signs.
void addHardRows(std::vector<float> &rows, int64_t dim, uint64_t seed);

/// Rows as a caller hands them to the runtime, padding between them filled with 0xff.
struct EncodedRows {
  std::vector<uint8_t> bytes;
  int64_t outerStride = 0, innerStride = 0; ///< bytes
};
/// `rows` is [outer, inner, dim]; each row is followed by `pad` bytes, each outer one by `pad`
/// more.
EncodedRows encodeRows(ElementType type, const std::vector<float> &rows, int64_t outer,
                       int64_t inner, int64_t dim, int64_t pad);
/// Rounds to the type.
void roundRows(ElementType type, std::vector<float> &rows);

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What graph-check captures: a step of a cache, everything it reads and writes at addresses that
// stay.
#pragma once

#include "tools/gpu-check/Subject.h"

#include <optional>
#include <random>
#include <vector>

namespace kvq {

class GraphStep {
public:
  GraphStep(const Subject &subject, int64_t qLength, int64_t splitTokens);
  virtual ~GraphStep() = default;

  /// Other rows, lengths, pages and slots; sequences past a random number are empty. Seed 0:
  /// lengths of 1.
  virtual void randomize(uint64_t seed) = 0;
  /// The calls of a step; `launches` is how many kernels they are.
  virtual void launch() = 0;
  virtual int launches() const = 0;

  /// Every sequence as long as the table, and `more` tokens longer.
  void lengthen(int32_t more);
  /// What kernels met so far (KVQ_FAULT_LENGTH).
  uint32_t faults() const;
  /// All bytes that a step writes.
  std::vector<uint8_t> results() const;

protected:
  static constexpr int64_t kBatch = 6, kPage = 64, kColumns = 20;
  static constexpr int64_t kTokens = kBatch * kColumns * kPage;

  /// Tokens [kTokens] of random rows, and queries.
  void randomRows(std::mt19937_64 &random);
  /// Random page ids; lengths of at most `most`, which are returned.
  std::vector<int32_t> randomTables(uint64_t seed, std::mt19937_64 &random, int64_t most,
                                    std::vector<int32_t> &ids);
  kvq_token_args tokenArgs() const;

  const Subject &subject;
  const CacheMethod &method;
  RecordLayout layout;
  int64_t pageStride;
  Buffer pool, keys, values, slots, queries, out, lse, table, lengths;
  std::optional<Buffer> workspace; ///< once the arguments of the decode are complete
  kvq_decode_args decode = {};

private:
  int64_t queryRow() const { return method.key.record.dim * elementBytes(method.attention.rows); }
  int64_t outRow() const { return method.value.record.dim * elementBytes(method.attention.rows); }
  void fillRows(const Buffer &buffer, ElementType type, std::mt19937_64 &random) const;
  void setDecode(int64_t qLength, int64_t splitTokens);
};

/// append, plan and decode; of a method with windows append_window, commit, demote, plan and
/// decode.
std::unique_ptr<GraphStep> makeStep(const Subject &subject, int64_t qLength, int64_t splitTokens);

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sequences in a paged cache on the device, filled by the library's own append.
#pragma once

#include "tools/gpu-check/Reference.h"
#include "tools/gpu-check/Rows.h"

#include <optional>

namespace kvq {

struct SceneSpec {
  RowKind kind;
  std::vector<int64_t> lengths;
  int64_t page = 64;
  int64_t firstHead = 0, heads = 1; ///< KV heads of the model that take part
  int64_t poolBytes = 0;            ///< the pool is at least that large; pages lie anywhere in it
  uint64_t seed = 1;
  int group = 0;       ///< query heads of a KV head; 0: those of the library
  int qLength = 1;     ///< query tokens of each sequence
  bool indptr = false; ///< queries and pages by indptr, q_length a loose bound
  int64_t window = 0;  ///< tokens that a query attends; 0: all
  bool sinks = false;  ///< learned logits
};

/// Bytes of a decode, as the device wrote them.
struct Decoded {
  std::vector<uint32_t> out; ///< bits of [batch, qLength, heads * group, valueDim]
  std::vector<float> lse;    ///< [batch, qLength, heads * group]
  bool paddingKept = true;   ///< bytes between the rows are as they were

  bool operator==(const Decoded &other) const;
};

class Scene {
public:
  Scene(const Subject &subject, const SceneSpec &spec);

  int64_t batch() const { return int64_t(spec.lengths.size()); }
  int group() const { return spec.group ? spec.group : subject.group(); }
  /// Output rows of a sequence.
  int64_t rows() const { return spec.qLength * spec.heads * group(); }

  /// Decodes the sequences `which` in this order, or all. `repeat`: a second call over the same
  /// workspace with the plan of the first, whose result counts.
  Decoded decode(int64_t splitTokens, const std::vector<int64_t> &which = {}, bool repeat = false);

  /// What decode of all sequences should give, one for each; made once.
  const std::vector<AttentionResult> &expected();

private:
  struct Inputs;
  Inputs inputsOf(const std::vector<int64_t> &which) const;
  void placePages();
  std::vector<float> byToken(const std::vector<float> &rows) const;
  void append(int64_t sequence, const SequenceRows &rows);
  std::vector<int32_t> tableOf(const std::vector<int64_t> &which) const;
  Decoded collect(int64_t tokens, const Buffer &out, const Buffer &lse) const;

  const Subject &subject;
  SceneSpec spec;
  RecordLayout layout;
  int64_t headStride, pageStride, poolPages = 0, columns = 0;
  std::vector<std::vector<int32_t>> pages; ///< ids, of each sequence
  std::vector<std::vector<float>> queries; ///< of each sequence, rounded
  std::vector<float> sinks;                ///< of each query head, or none
  std::optional<Buffer> pool;
  std::vector<AttentionResult> results;
};

} // namespace kvq

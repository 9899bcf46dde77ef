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
  int group = 0;             ///< query heads of a KV head; 0: those of the library
  int qLength = 1;           ///< query tokens of each sequence
  std::vector<int> qLengths; ///< of each sequence, if they differ: then by indptr
  bool indptr = false;       ///< queries and pages by indptr, q_length a loose bound
  int64_t window = 0;        ///< tokens that a query attends; 0: all
  bool sinks = false;        ///< learned logits
  bool atEnd = false;        ///< pages are the last of the pool, in order
  /// The first tokens that all sequences have in common, in whole pages: each has its own copy, or
  /// all tables begin with the pages of the first sequence.
  int64_t prefix = 0;
  bool sharePrefix = false;
};

/// Bytes of a decode, as the device wrote them.
struct Decoded {
  std::vector<uint32_t> out; ///< bits of [query tokens, heads * group, valueDim]
  std::vector<float> lse;    ///< [query tokens, heads * group]
  bool paddingKept = true;   ///< bytes between the rows are as they were

  bool operator==(const Decoded &other) const;
};

class Scene {
public:
  Scene(const Subject &subject, const SceneSpec &spec);

  int64_t batch() const { return int64_t(spec.lengths.size()); }
  int group() const { return spec.group ? spec.group : subject.group(); }
  int queryTokens(int64_t sequence) const {
    return spec.qLengths.empty() ? spec.qLength : spec.qLengths[size_t(sequence)];
  }

  /// Decodes the sequences `which` in this order, or all. `repeat`: a second call over the same
  /// workspace with the plan of the first, whose result counts.
  Decoded decode(int64_t splitTokens, const std::vector<int64_t> &which = {}, bool repeat = false);
  /// Decodes query token `token` of a sequence alone, in a sequence that ends with it.
  Decoded decodeToken(int64_t splitTokens, int64_t sequence, int token);

  /// Exports all pages, through memory of this machine or of the device, and imports them into
  /// another pool, with other page ids and strides.
  void movePages(bool throughHost);

  /// What decode of all sequences should give, one for each; made once.
  const std::vector<AttentionResult> &expected();

private:
  /// Query tokens [first, first + count) of a sequence, which ends with the last of them.
  struct Part {
    int64_t sequence;
    int first, count;
  };
  struct Inputs;
  Inputs inputsOf(const std::vector<Part> &parts) const;
  kvq_decode_args argumentsOf(const Inputs &inputs, int64_t splitTokens) const;
  Decoded run(int64_t splitTokens, const std::vector<Part> &parts, bool repeat);
  void placePages(uint64_t seed);
  void append(int64_t sequence, const SequenceRows &rows);
  std::vector<int32_t> tableOf(const std::vector<Part> &parts) const;
  Decoded collect(int64_t tokens, const Buffer &out, const Buffer &lse) const;

  const Subject &subject;
  SceneSpec spec;
  RecordLayout layout;
  int64_t headStride, pageStride, poolPages = 0, columns = 0;
  uint64_t moves = 0;                      ///< of pages
  std::vector<std::vector<int32_t>> pages; ///< ids, of each sequence
  std::vector<std::vector<float>> queries; ///< of each sequence by token, rounded
  std::vector<float> sinks;                ///< of each query head, or none
  std::optional<Buffer> pool;
  std::vector<AttentionResult> results;
};

} // namespace kvq

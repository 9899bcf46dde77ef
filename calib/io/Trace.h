// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reader of trace files, docs/trace-format.md. Errors are one sentence; an empty string is success.
#pragma once

#include "kvq/layout.h"
#include "runtime/format/safetensors.h"

#include <string>
#include <vector>

namespace kvq {

/// The tensors of one layer, all of the trace's element type: q [Tq, Hq, D], k and v [T, Hkv, D],
/// wo [Hq * D, hidden].
struct TraceLayer {
  int64_t index = 0; ///< in the model
  const TensorView *q = nullptr, *k = nullptr, *v = nullptr, *wo = nullptr;
};

struct Trace {
  Safetensors file; ///< owns what the layers point to
  std::vector<TraceLayer> layers;
  ElementType element = ElementType::bf16; ///< f16 or bf16
  int64_t tokens = 0;                      ///< T
  int64_t queryStart = 0;                  ///< token of query row 0; Tq = tokens - queryStart
  int64_t queryHeads = 0, kvHeads = 0, headDim = 0, hidden = 0;
  std::string model, modelDigest; ///< name, SHA-256 of the model file
  std::string rope;               ///< JSON text
  std::string text, digest;       ///< id of the text; SHA-256 of the tensors

  int64_t queries() const { return tokens - queryStart; }
};

/// Opens a trace of version 1 and checks its metadata, shapes and digest.
std::string openTrace(const std::string &path, Trace &out);

/// `count` elements from element `first` on, widened to f32. The tensor must be F16, BF16 or F32
/// and hold them.
void readElements(const TensorView &tensor, int64_t first, int64_t count, float *out);

} // namespace kvq

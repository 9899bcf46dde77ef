// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One layer of a trace in a cache of the runtime.
#pragma once

#include "calib/io/Trace.h"
#include "kvq/runtime.h"
#include "runtime/reference/Attention.h"
#include "runtime/reference/Constants.h"
#include "tools/device/Device.h"

#include <string>
#include <vector>

namespace kvq {

/// SHA-256 as 64 hexadecimal digits: of all bytes of the pages, unwritten ones ff, and of what the
/// kernels returned, out [Tq, Hq, D] and lse [Tq, Hq] of f32.
struct Digests {
  std::string cache, out, lse;
};

class LayerCache {
public:
  /// `layer` is the index of the constants.
  LayerCache(Device &device, kvq_library *library, const CacheMethod &method, const Trace &trace,
             int64_t page, int64_t layer);

  /// Appends all tokens.
  std::string append(const TraceLayer &tensors);

  /// Decodes all query rows; out [Tq, Hq, D] and lse [Tq, Hq].
  std::string decode(const TraceLayer &tensors, const Constants &constants, AttentionResult &out);

  /// Of what append and decode have written so far.
  const Digests &digests() const { return written; }

  /// What the pages hold: [Hkv, T, D] of side 'k' or 'v', in the model's basis.
  std::vector<double> dequantize(const Constants &constants, char side) const;

private:
  std::vector<uint8_t> queries(const TraceLayer &tensors, const Constants &constants) const;
  void unrotate(const Constants &constants, std::vector<double> &out) const;

  Device &device;
  kvq_library *library;
  const CacheMethod &method;
  const Trace &trace;
  int64_t layer, page, pages;
  RecordLayout layout;
  Buffer pool;
  std::vector<uint8_t> records; ///< the pool's bytes after append
  Digests written;
  std::vector<int32_t> table; ///< page ids, descending, so that a table that is not read shows
};

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A view of the constants of a method: f32 arrays [layers, kv_heads, ...] in one blob.
#pragma once

#include "runtime/format/method.h"

namespace kvq {

class Constants {
public:
  /// `blob` holds every constant at its offset and outlives the view.
  Constants(const CacheMethod &method, const void *blob)
      : list(&method.constants), blob(static_cast<const char *>(blob)) {}

  /// The slice of one layer and KV head: [dim] of a mean, [dim, dim] of a rotation.
  const float *slice(int constant, int64_t layer, int64_t head) const {
    const Constant &array = (*list)[constant];
    int64_t size = 1;
    for (size_t i = 2; i < array.shape.size(); ++i)
      size *= array.shape[i];
    const int64_t index = (layer * array.shape[1] + head) * size;
    return reinterpret_cast<const float *>(blob + array.offset) + index;
  }

  /// The learned sink logits of a layer, [q_heads]; null: none.
  const float *sinks(const CacheMethod &method, int64_t layer) const {
    const int64_t offset = method.sinksOffset(layer);
    return offset < 0 ? nullptr : reinterpret_cast<const float *>(blob + offset);
  }

private:
  const std::vector<Constant> *list;
  const char *blob;
};

/// Where a row belongs: selects the slices of the constants.
struct RowPlace {
  int64_t layer = 0;
  int64_t head = 0; ///< KV head
};

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Questions that the maps of a tile (TileMap, FragmentMap) ask the fields of kvq/layout.h.
#pragma once

#include "kvq/layout.h"

#include <string>

namespace mlir::kvq {

inline int64_t byteOf(const ::kvq::Field &field, int64_t token, int64_t channel) {
  return ::kvq::bitAddress(field, token, channel) / 8;
}

inline int slotOf(const ::kvq::Field &field, int64_t channel) {
  return static_cast<int>(::kvq::bitAddress(field, 0, channel) % 8 / field.width);
}

/// "the cpu target expects the key field of channels 0..128 to ..."
inline std::string unexpectedField(const std::string &subject, const ::kvq::Field &field,
                                   const char *what) {
  return subject + " the " + (field.side == 'k' ? "key" : "value") + " field of channels " +
         std::to_string(field.firstChannel) + ".." + std::to_string(field.endChannel) + " " + what;
}

} // namespace mlir::kvq

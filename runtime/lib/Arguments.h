// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of arguments. The first that fails makes the message; text is made only then, so that good
// calls allocate nothing.
#pragma once

#include "runtime/lib/Status.h"

#include <cmath>
#include <utility>

namespace kvq {

struct Arguments {
  static constexpr int64_t kRowAlign = 16;

  Status status;
  const char *scope = ""; ///< what names in messages begin with: "pool."

  bool ok() const { return status.ok(); }

  void fail(const std::string &name, const std::string &expected, const std::string &got) {
    if (ok())
      status = {KVQ_INVALID_ARGUMENT, scope + name + ": expected " + expected + ", got " + got};
  }
  void range(const char *name, int64_t value, int64_t low, int64_t high) {
    if (ok() && (value < low || value > high))
      fail(name, std::to_string(low) + " to " + std::to_string(high), std::to_string(value));
  }
  void multiple(const char *name, int64_t value, int64_t of) {
    if (ok() && value % of)
      fail(name, "a multiple of " + std::to_string(of), std::to_string(value));
  }
  void pointer(const char *name, const void *pointer, uintptr_t align) {
    if (!ok())
      return;
    if (!pointer)
      fail(name, "a pointer", "null");
    else if (reinterpret_cast<uintptr_t>(pointer) % align)
      fail(name, "an address that is a multiple of " + std::to_string(align),
           "one that is " + std::to_string(reinterpret_cast<uintptr_t>(pointer) % align) +
               " above");
  }
  void finite(const char *name, float value) {
    if (ok() && !std::isfinite(value))
      fail(name, "a finite number", std::to_string(value));
  }
};

} // namespace kvq

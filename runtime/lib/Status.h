// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "kvq/runtime.h"

#include <string>

namespace kvq {

/// Result of an internal function: KVQ_OK, or a code with one sentence.
struct Status {
  kvq_status code = KVQ_OK;
  std::string message;

  bool ok() const { return code == KVQ_OK; }
};

} // namespace kvq

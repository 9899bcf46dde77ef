// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a library can be used for.
#pragma once

#include "runtime/lib/Library.h"

#include <vector>

namespace kvq {

/// Every reason against a use; none if the library can do it.
std::vector<kvq_reason> reasonsAgainst(const kvq_library &library, const kvq_use &use);

} // namespace kvq

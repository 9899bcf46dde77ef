// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pages on their way out of a pool and into another.
#pragma once

#include "runtime/lib/Library.h"

namespace kvq {

Status exportPages(const kvq_library &library, const kvq_move_args &args, kvq_page_header &header);
Status importPages(const kvq_library &library, const kvq_move_args &args,
                   const kvq_page_header &header);

} // namespace kvq

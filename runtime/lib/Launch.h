// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of the arguments of append and decode, and their launch.
#pragma once

#include "runtime/lib/Library.h"

namespace kvq {

Status launchAppend(kvq_library &library, const kvq_append_args &args);
Status launchDecode(kvq_library &library, const kvq_decode_args &args);

/// Bytes of the workspace of a decode.
Status workspaceSize(const kvq_library &library, const kvq_decode_args &args, size_t &bytes);

} // namespace kvq

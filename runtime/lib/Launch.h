// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of the arguments of calls, and their launch on the CPU, or on the device of the library.
#pragma once

#include "runtime/lib/Library.h"

namespace kvq {

/// `role`: append, append_window or dequantize.
Status launchTokens(kvq_library &library, KernelRole role, const kvq_token_args &args);
Status launchCommit(kvq_library &library, const kvq_commit_args &args);
Status launchDemote(kvq_library &library, const kvq_demote_args &args);
Status launchPlan(kvq_library &library, const kvq_decode_args &args);
Status launchDecode(kvq_library &library, const kvq_decode_args &args);

/// Bytes of the workspace of a decode.
Status workspaceSize(const kvq_library &library, const kvq_decode_args &args, size_t &bytes);
Status initWorkspace(kvq_library &library, void *workspace, size_t bytes, void *stream);

/// Bytes of the first part of a workspace, whose first word gathers faults.
inline constexpr int64_t kFaultBytes = 128;

} // namespace kvq

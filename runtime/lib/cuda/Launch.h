// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls on a CUDA device. Launches do not allocate, on the host or the device, and do not wait;
// only the first one of a format loads its code.
#pragma once

#include "runtime/lib/Checks.h"

namespace kvq::cuda {

// The format of the call has a device, and the arguments have been checked.
Status launchTokens(const Call &call, KernelRole role, const kvq_token_args &args);
Status launchCommit(const Call &call, const kvq_commit_args &args);
Status launchDemote(const Call &call, const kvq_demote_args &args);

// The library has a device.
Status launchPlan(const kvq_library &library, const kvq_decode_args &args);
Status launchDecode(const kvq_library &library, const kvq_decode_args &args);
/// Loads the code, so that later calls only launch.
Status workspaceSize(const kvq_library &library, const kvq_decode_args &args, size_t &bytes);
Status initWorkspace(const kvq_library &library, void *workspace, void *stream);
/// A copy in the stream, from and to memory of the host or the device.
Status copyAsync(const kvq_library &library, void *to, const void *from, size_t bytes,
                 void *stream);

} // namespace kvq::cuda

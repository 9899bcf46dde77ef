// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Append and decode on a CUDA device. Preconditions of all: the format has a device. Launches do
// not allocate, on the host or the device, and do not wait.
#pragma once

#include "runtime/lib/Library.h"

namespace kvq::cuda {

/// `layer` is one of the format's constants; that of `args` is not read.
Status launchAppend(const Format &format, int64_t layer, const kvq_append_args &args);
Status launchDecode(const Format &format, int64_t layer, const kvq_decode_args &args);

/// Bytes of the workspace of a decode. Loads the code, so that later calls only launch.
Status workspaceSize(const Format &format, const kvq_decode_args &args, size_t &bytes);

} // namespace kvq::cuda

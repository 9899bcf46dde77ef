// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What append and decode check on any target, and the kernel arguments that follow from the
// caller's alone. Of rows, pages and tables only addresses and strides are looked at: on a device
// the host cannot read them.
#pragma once

#include "runtime/lib/Arguments.h"
#include "runtime/lib/Library.h"

namespace kvq {

/// `x` up to a multiple of `m`.
inline int64_t roundUp(int64_t x, int64_t m) { return (x + m - 1) / m * m; }

/// Heads of a call.
struct CallHeads {
  int64_t heads = 0; ///< KV heads
  int64_t ratio = 1; ///< query heads of a KV head
};

/// Whether the records can be written token by token, as the kernels do.
Status checkAppendStep(const Format &format);

/// Heads and number of tokens. Nothing else is checked where there is no token.
CallHeads checkAppendSize(Arguments &check, const CacheMethod &method, const kvq_append_args &args);
void checkAppend(Arguments &check, const Format &format, const kvq_append_args &args);

/// Heads, batch and max_length, as far as the size of a workspace depends on them.
CallHeads checkDecodeSize(Arguments &check, const CacheMethod &method, const kvq_decode_args &args);
/// Everything that the size does not depend on, the workspace and the numbers in tables excepted.
void checkDecode(Arguments &check, const Format &format, const kvq_decode_args &args,
                 const CallHeads &heads);
void checkWorkspace(Arguments &check, const kvq_decode_args &args, int64_t bytes);

/// Without the layer of the constants.
kvq_cpu_append_args kernelArguments(const kvq_append_args &args, const CallHeads &heads,
                                    const void *constants);
/// Likewise, and without splits and workspace.
kvq_cpu_decode_args kernelArguments(const Format &format, const kvq_decode_args &args,
                                    const CallHeads &heads, const void *constants);

} // namespace kvq

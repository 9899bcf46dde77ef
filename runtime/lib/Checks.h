// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What calls check on any target, and the kernel arguments that follow from the caller's alone. Of
// rows, pages and tables only addresses and strides are looked at: on a device the host cannot read
// them.
#pragma once

#include "runtime/lib/Arguments.h"
#include "runtime/lib/Library.h"

namespace kvq {

/// `x` up to a multiple of `m`.
inline int64_t roundUp(int64_t x, int64_t m) { return (x + m - 1) / m * m; }

/// The most query heads of a call.
inline constexpr int64_t kMaxQHeads = INT16_MAX;

/// What a kvq_place names.
struct Call {
  const Format *format = nullptr;
  int64_t layer = 0; ///< of the format's constants
  int64_t firstHead = 0, heads = 0;
};

/// INVALID_ARGUMENT for what the model does not have, UNSUPPORTED for a layer that is not
/// quantized.
Status placeCall(const kvq_library &library, const kvq_place &place, Call &call);

/// UNSUPPORTED, naming the kernel, if the format's code lacks it or there is no code.
Status needKernel(const Format &format, KernelRole role);
/// UNSUPPORTED for a format without windows.
Status needWindows(const Format &format);
/// Whether the records can be written token by token, as the kernels do.
Status checkAppendStep(const Format &format);

/// Number of tokens. Nothing else is checked where there is none.
void checkTokenCount(Arguments &check, const kvq_token_args &args);
/// `role`: append, append_window or dequantize.
void checkTokens(Arguments &check, const Call &call, KernelRole role, const kvq_token_args &args);
void checkDemote(Arguments &check, const Call &call, const kvq_demote_args &args);
void checkCommit(Arguments &check, const kvq_commit_args &args);
/// Pages [count], the pool of records, and the bytes of `data`.
void checkMove(Arguments &check, const Call &call, const kvq_move_args &args);

/// Bytes of a record of `pageTokens` tokens; the layout is linear in blocks.
int64_t recordBytes(const RecordLayout &layout, int64_t pageTokens);

/// What of a decode its workspace depends on.
struct DecodeShape {
  Call call;
  int64_t ratio = 1; ///< query heads of a KV head
  int64_t qLength = 1;
  int64_t rowClass = 1, rowBlocks = 1;
  int64_t segments = 0; ///< (sequence, KV head, row block), below 2^62
};
Status shapeOf(const kvq_library &library, const kvq_decode_args &args, Arguments &check,
               DecodeShape &shape);
/// What the size does not depend on, the workspace and the numbers in tables excepted. `plan`: only
/// what a plan reads.
void checkDecode(Arguments &check, const DecodeShape &shape, const kvq_decode_args &args,
                 bool plan);
/// A bound of the lengths: max_length, or less where the tables name fewer tokens.
int64_t longestOf(const DecodeShape &shape, const kvq_decode_args &args);
void checkWorkspace(Arguments &check, const kvq_decode_args &args, int64_t bytes);

kvq_token_kernel_args kernelArguments(const Call &call, const kvq_token_args &args,
                                      const void *constants);
kvq_demote_kernel_args kernelArguments(const Call &call, const kvq_demote_args &args,
                                       const void *constants);
/// Without splits and workspace.
kvq_decode_kernel_args kernelArguments(const DecodeShape &shape, const kvq_decode_args &args,
                                       const void *constants);

} // namespace kvq

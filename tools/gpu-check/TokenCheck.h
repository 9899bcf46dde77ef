// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The calls on tokens beside append: dequantize, and those of high-precision windows.
#pragma once

#include "tools/gpu-check/Checks.h"

namespace kvq {

inline bool hasWindows(const Subject &subject) { return subject.method.windowed(); }

/// Dequantizes what append wrote, as stored or in the model's basis, all but the reserved slot.
CheckResult checkDequantize(const Subject &subject, const RowKind &kind, bool stored);

/// A sequence with windows, filled in pieces and demoted `step` tokens at a time: records equal
/// appended ones, and attention, of drafts too, equals the oracle's.
CheckResult checkWindow(const Subject &subject, const RowKind &kind, int64_t step);

/// Rows of a sequence on the device, for all KV heads of the model.
struct TokenRows {
  /// `queryTokens`: of which there are queries.
  TokenRows(const Subject &subject, const RowKind &kind, int64_t count, int queryTokens,
            uint64_t seed);

  /// Arguments of a call over tokens [first, first + tokens) with these 32-bit slots.
  kvq_token_args arguments(const Subject &subject, int64_t first, const Buffer &slots,
                           int64_t tokens) const;

  std::vector<float> queries; ///< [queryTokens, q heads, keyDim], rounded
  EncodedRows k, v;
  Buffer keys, values;

private:
  TokenRows(const Subject &subject, const SequenceRows &rows, int64_t count, int queryTokens);
};

} // namespace kvq

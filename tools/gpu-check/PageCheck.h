// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pages that are shared, moved or far away in their pool give the bits that other pages give.
#pragma once

#include "tools/gpu-check/Checks.h"

namespace kvq {

/// Pages exported and imported elsewhere, through memory of this machine and of the device; pages
/// of another format are refused.
CheckResult checkMovedPages(const Subject &subject, const RowKind &kind);

/// Sequences whose tables begin with the same pages, against copies of these.
CheckResult checkSharedPages(const Subject &subject, const RowKind &kind);

/// The last pages of a pool of `poolBytes`, against those of a small pool.
CheckResult checkFarPages(const Subject &subject, const RowKind &kind, int64_t poolBytes);

/// Eight query tokens of a sequence of `length` tokens in a pool of at least `poolBytes`, against
/// each alone, in a sequence that ends with it.
CheckResult checkRowsAlone(const Subject &subject, const RowKind &kind, int64_t length,
                           int64_t poolBytes);

} // namespace kvq

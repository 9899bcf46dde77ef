// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a library is held to. A check that a kernel cannot even be run for throws
// std::runtime_error.
#pragma once

#include "tools/gpu-check/Rows.h"
#include "tools/gpu-check/Subject.h"

#include <functional>

namespace kvq {

struct CheckResult {
  std::string name;
  std::string failure; ///< empty: passed
  /// Relative l2 error of the output before rounding, over the call and of the worst query head,
  /// and the largest difference of the log-sum-exp.
  double error = 0, worstHead = 0, lse = 0;
  double seconds = 0;
};

struct CheckPlan {
  std::vector<RowKind> kinds;
  std::vector<int64_t> lengths; ///< those above 16384 are checked alone, with one KV head
  bool large = false;           ///< pools above 2 GiB and 4 GiB
};

/// Bytes that append writes equal the oracle's, no other byte changes, and the division into calls
/// does not matter.
CheckResult checkAppend(const Subject &subject, const RowKind &kind, int64_t page, uint64_t seed);

/// All checks of a plan, in turn; each result is handed to `done`. After a failed append nothing is
/// decoded.
void checkLibrary(const Subject &subject, const CheckPlan &plan,
                  const std::function<void(const CheckResult &)> &done);

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "tools/gpu-check/Checks.h"
#include "tools/gpu-check/Scene.h"

namespace kvq {

/// What the output of a kind of rows is held to on a target, from runtime/reference/Tolerances.h.
struct DecodeBounds {
  double call, head; ///< relative l2, before rounding
  double lse;        ///< absolute
  bool lseGrows;     ///< times max(1, |lse|)
};
DecodeBounds decodeBounds(kvq_target target, ElementType rows, const RowKind &kind);

/// Holds what came back for all sequences of a scene to the bounds; adds to the errors of `result`.
void compareDecoded(const Subject &subject, const DecodeBounds &bounds, const Decoded &got,
                    const std::vector<AttentionResult> &expected, CheckResult &result);

/// Dequantized rows and, of a method with windows, rows kept, demoted and attended.
std::vector<CheckResult> checkTokens(const Subject &subject, const RowKind &kind);

/// Decodes a scene with splits by load and with fixed ones, again, and alone.
CheckResult checkDecode(const Subject &subject, const std::string &name, const SceneSpec &spec);

} // namespace kvq

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

constexpr int64_t kSplit = 1024; ///< tokens of fixed splits

/// Fails `result`, saying `what`, unless all bits are the same.
void sameBits(const Decoded &got, const Decoded &expected, const std::string &what,
              CheckResult &result);

/// Output rows [first, first + count) of a decode.
Decoded rowsOf(const Decoded &all, int64_t first, int64_t count, int64_t dim);

/// A scene of the last `heads` KV heads of the model, so that the offset of the first is not 0.
SceneSpec sceneOf(const Subject &subject, const RowKind &kind, int64_t heads, int64_t page,
                  uint64_t seed);

/// Decodes a scene with splits by load and with fixed ones, again, and alone.
CheckResult checkDecode(const Subject &subject, const std::string &name, const SceneSpec &spec);

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "dialect/KVQ.h"
#include "runtime/format/method.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::kvq {

/// A cache and the attention that reads it.
struct CacheAttention {
  CacheOp cache;
  FusedAttentionOp attention;
};

/// The caches of `module` that a fused attention reads, in their order; a diagnostic when there is
/// none, or a second attention for a cache.
FailureOr<SmallVector<CacheAttention>> findCaches(ModuleOp module);

/// The one of them; a diagnostic when there are several.
FailureOr<CacheAttention> findCache(ModuleOp module);

/// The method of `found`, if `target` (cpu, or the name of a chip) can generate it; else one
/// diagnostic that names the op and the target.
FailureOr<::kvq::CacheMethod> readTargetMethod(const CacheAttention &found, StringRef target);

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "codegen/conversion/FindCache.h"
#include "runtime/format/library.h"

namespace mlir::kvq {

/// The layers of the model that `module` describes: each has the format of the cache that serves
/// it, the cache's number in `caches`, or none. A diagnostic that names both caches where two serve
/// one layer.
FailureOr<std::vector<::kvq::LibraryLayer>> modelLayers(ModuleOp module,
                                                        ArrayRef<CacheAttention> caches);

} // namespace mlir::kvq

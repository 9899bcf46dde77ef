// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "dialect/KVQOps.h"
#include "kvq/layout.h"

namespace mlir::kvq {

/// The element type of rows or parameters; `type` is f16, bf16 or f32.
::kvq::ElementType elementTypeOf(Type type);

/// The record side that a pipeline's codes need.
::kvq::RecordSide recordSideOf(PipelineOp pipeline);

/// The record of a cache at its default page. Precondition: both pipelines resolve.
::kvq::RecordSpec recordSpecOf(CacheOp cache);

} // namespace mlir::kvq

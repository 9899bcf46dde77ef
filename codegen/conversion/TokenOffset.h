// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "codegen/conversion/Emit.h"
#include "kvq/layout.h"

namespace mlir::kvq {

/// Bytes from the place of token 0 of a tile to that of `token` (i64, 0..15).
Value tokenOffset(Emit &emit, const ::kvq::Field &field, Value token);

} // namespace mlir::kvq

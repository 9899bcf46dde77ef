// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One element of a record, wherever it lies: for kernels that read a row and are in no hurry.
#pragma once

#include "codegen/conversion/Numeric.h"
#include "dialect/KVQTile.h"

namespace mlir::kvq {

/// scale * code + offset of channel `channel` (i64) of token `token` (i64, 0..15) of a tile.
Value loadElement(Numeric &emit, const ::kvq::RecordLayout &layout, TileSideAttr side, bool key,
                  Value tile, Value token, Value channel);

} // namespace mlir::kvq

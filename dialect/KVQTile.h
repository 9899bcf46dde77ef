// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Level 3 of the dialect: tile ops (dialect/KVQTileOps.td) with their attributes and types.
#pragma once

#include "dialect/KVQTypes.h"
#include "kvq/layout.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"

namespace mlir::kvq {

/// What every tile op holds to, by the names of its attributes: `queries` and `tiles` are counts,
/// `element` is a type that a row can be stored in.
LogicalResult verifyTileOp(Operation *op);

template <typename ConcreteOp>
class TileOpTrait : public OpTrait::TraitBase<ConcreteOp, TileOpTrait> {
public:
  static LogicalResult verifyTrait(Operation *op) { return verifyTileOp(op); }
};

} // namespace mlir::kvq

#define GET_OP_CLASSES
#include "dialect/KVQTileOps.h.inc"

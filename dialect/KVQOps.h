// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops of levels 1 and 2.
#pragma once

#include "dialect/KVQTypes.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::kvq {
class RowsOp;
class GroupOp;
class RoundOp;
class PackOp;
class PipelineOp;
} // namespace mlir::kvq

#define GET_OP_CLASSES
#include "dialect/KVQOps.h.inc"

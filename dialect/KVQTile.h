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

#define GET_OP_CLASSES
#include "dialect/KVQTileOps.h.inc"

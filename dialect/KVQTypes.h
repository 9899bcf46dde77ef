// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Enums, attributes and types of all levels.
#pragma once

#include "dialect/KVQDialect.h"
#include "kvq/layout.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpImplementation.h"

#include "dialect/KVQEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/KVQAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/KVQTypes.h.inc"

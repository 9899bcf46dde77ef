// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialect/KVQDialect.h"

#include "dialect/KVQBasis.h"
#include "dialect/KVQOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mlir::kvq;

#include "dialect/KVQDialect.cpp.inc"

// The `custom<Factors>` directive of kvq.rotate, used by the parser and printer generated below.
static ParseResult parseFactors(OpAsmParser &parser, ArrayAttr &factors) { return parseFactorList(parser, factors); }
static void printFactors(OpAsmPrinter &printer, Operation *, ArrayAttr factors) { printFactorList(printer, factors); }

// The `custom<CodeBits>` directive of kvq.round: the width of a code, written as an integer type.
static ParseResult parseCodeBits(OpAsmParser &parser, IntegerAttr &bits) {
  IntegerType type;
  if (parser.parseType(type))
    return failure();
  bits = parser.getBuilder().getI64IntegerAttr(type.getWidth());
  return success();
}
static void printCodeBits(OpAsmPrinter &printer, Operation *, IntegerAttr bits) { printer << "i" << bits.getInt(); }

#define GET_OP_CLASSES
#include "dialect/KVQOps.cpp.inc"

void KVQDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "dialect/KVQOps.cpp.inc"
      >();
}

void KVQDialect::initialize() {
  registerAttributes();
  registerTypes();
  registerOps();
  registerTileOps();
  registerBytecode();
}

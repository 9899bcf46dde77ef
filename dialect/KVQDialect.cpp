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
static ParseResult parseFactors(OpAsmParser &parser, ArrayAttr &factors) {
  return parseFactorList(parser, factors);
}
static void printFactors(OpAsmPrinter &printer, Operation *, ArrayAttr factors) {
  printFactorList(printer, factors);
}

// The `custom<CodeBits>` directive of kvq.round: the width of a code, written as an integer type.
static ParseResult parseCodeBits(OpAsmParser &parser, IntegerAttr &bits) {
  IntegerType type;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(type))
    return failure();
  if (!type.isSignless())
    return parser.emitError(loc, "expects codes of i2, i3, i4 or i8, got ") << type;
  bits = parser.getBuilder().getI64IntegerAttr(type.getWidth());
  return success();
}
static void printCodeBits(OpAsmPrinter &printer, Operation *, IntegerAttr bits) {
  printer << "i" << bits.getInt();
}

// The `custom<Windows>` directive of kvq.cache: `, sink = 64, recent = 256`, each left out when 0.
static ParseResult parseWindows(OpAsmParser &parser, IntegerAttr &sink, IntegerAttr &recent) {
  Type type = parser.getBuilder().getI64Type();
  sink = recent = IntegerAttr::get(type, 0);
  bool first = true;
  while (succeeded(parser.parseOptionalComma())) {
    bool isSink = first && succeeded(parser.parseOptionalKeyword("sink"));
    if (!isSink && parser.parseKeyword("recent"))
      return failure();
    if (parser.parseEqual() || parser.parseAttribute(isSink ? sink : recent, type))
      return failure();
    if (!isSink)
      return success();
    first = false;
  }
  return success();
}
static void printWindows(OpAsmPrinter &printer, Operation *, IntegerAttr sink, IntegerAttr recent) {
  if (sink && sink.getInt())
    printer << ", sink = " << sink.getInt();
  if (recent && recent.getInt())
    printer << ", recent = " << recent.getInt();
}

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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialect/KVQDialect.h"

#include "dialect/KVQBasis.h"
#include "dialect/KVQOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
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

// The `custom<CacheOptions>` directive of kvq.cache: `, sink = 64, recent = 256, at = [0, 3]`, in
// this order, each left out when 0 or absent.
static ParseResult parseCacheOptions(OpAsmParser &parser, IntegerAttr &sink, IntegerAttr &recent,
                                     DenseI64ArrayAttr &at) {
  Type type = parser.getBuilder().getI64Type();
  sink = recent = IntegerAttr::get(type, 0);
  constexpr StringRef names[] = {"sink", "recent", "at"};
  size_t next = 0; // first name that may still come
  while (succeeded(parser.parseOptionalComma())) {
    for (; next < 2; ++next)
      if (succeeded(parser.parseOptionalKeyword(names[next])))
        break;
    if ((next == 2 && parser.parseKeyword(names[2])) || parser.parseEqual())
      return failure();
    if (next == 2) {
      at = dyn_cast_or_null<DenseI64ArrayAttr>(DenseI64ArrayAttr::parse(parser, Type()));
      return success(at != nullptr);
    }
    if (parser.parseAttribute(next == 0 ? sink : recent, type))
      return failure();
    ++next;
  }
  return success();
}
static void printCacheOptions(OpAsmPrinter &printer, Operation *, IntegerAttr sink,
                              IntegerAttr recent, DenseI64ArrayAttr at) {
  if (sink && sink.getInt())
    printer << ", sink = " << sink.getInt();
  if (recent && recent.getInt())
    printer << ", recent = " << recent.getInt();
  if (!at)
    return;
  printer << ", at = ";
  at.print(printer);
}

#define GET_OP_CLASSES
#include "dialect/KVQOps.cpp.inc"

void KVQDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "dialect/KVQOps.cpp.inc"
      >();
}

LogicalResult KVQDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() != "kvq.layers")
    return success();
  constexpr int64_t most = 65536;
  auto layers = dyn_cast<IntegerAttr>(attribute.getValue());
  if (isa<ModuleOp>(op) && layers && layers.getType().isSignlessInteger(64) &&
      layers.getInt() >= 1 && layers.getInt() <= most)
    return success();
  return op->emitOpError("expects kvq.layers on a module, an i64 of 1 to ")
         << most << ", got " << attribute.getValue();
}

void KVQDialect::initialize() {
  registerAttributes();
  registerTypes();
  registerOps();
  registerTileOps();
  registerBytecode();
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialect/KVQTypes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::kvq;

#include "dialect/KVQEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/KVQAttrs.cpp.inc"

Attribute DenseAttr::parse(AsmParser &parser, Type) {
  SymbolRefAttr matrix;
  if (parser.parseLess() || parser.parseAttribute(matrix))
    return {};
  bool inverse = succeeded(parser.parseOptionalKeyword("inverse"));
  if (parser.parseGreater())
    return {};
  return DenseAttr::get(parser.getContext(), matrix, inverse);
}

void DenseAttr::print(AsmPrinter &printer) const {
  printer << "<" << getMatrix() << (getInverse() ? " inverse" : "") << ">";
}

void KVQDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/KVQAttrs.cpp.inc"
      >();
}

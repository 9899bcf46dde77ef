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

LogicalResult FoldAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef,
                               StringRef axes, FoldPlace, StringRef) {
  SmallVector<StringRef> letters;
  axes.split(letters, ", ");
  bool legal = axes == "constant" || llvm::all_of(letters, [](StringRef letter) {
                 return letter == "t" || letter == "d" || letter == "g" || letter == "T";
               });
  if (legal)
    return success();
  return emitError() << "expects axes \"constant\" or a list of t, d, g and T, got \"" << axes
                     << "\"";
}

void KVQDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/KVQAttrs.cpp.inc"
      >();
}

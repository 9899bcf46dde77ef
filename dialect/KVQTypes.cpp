// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialect/KVQTypes.h"

#include "dialect/KVQBasis.h"
#include "kvq/layout.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::kvq;

#define GET_TYPEDEF_CLASSES
#include "dialect/KVQTypes.cpp.inc"

/// The element types of rows and of parameters.
static bool isStoredFloat(Type type) { return type.isBF16() || type.isF16() || type.isF32(); }

RowsType RowsType::withElement(Type element) const {
  return get(getContext(), getRows(), getDim(), element, getBasis(), getCenter());
}
RowsType RowsType::withBasis(ArrayAttr basis) const {
  return get(getContext(), getRows(), getDim(), getElement(), basis, getCenter());
}
RowsType RowsType::withCenter(ArrayAttr center) const {
  return get(getContext(), getRows(), getDim(), getElement(), getBasis(), center);
}

LogicalResult RowsType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t rows,
                               int64_t dim, Type element, ArrayAttr basis, ArrayAttr center) {
  if (rows < 0 && !ShapedType::isDynamic(rows))
    return emitError() << "expects a number of rows or ?, got " << rows;
  if (dim < 1 || dim > ::kvq::kMaxHeadDim)
    return emitError() << "expects a head dim of 1 to " << ::kvq::kMaxHeadDim << ", got " << dim;
  if (!isStoredFloat(element))
    return emitError() << "expects rows of bf16, f16 or f32, got " << element;
  for (Attribute attr : center) {
    auto entry = dyn_cast<CenterEntryAttr>(attr);
    if (!entry)
      return emitError() << "expects means in a center, got " << attr;
    if (failed(verifyFactors(entry.getBasis(), dim, emitError)))
      return failure();
  }
  return verifyFactors(basis, dim, emitError);
}

static ParseResult parseCenter(AsmParser &parser, ArrayAttr &center) {
  SmallVector<Attribute> entries;
  auto parseEntry = [&]() -> ParseResult {
    SymbolRefAttr mean;
    ArrayAttr basis = ArrayAttr::get(parser.getContext(), {});
    if (parser.parseAttribute(mean))
      return failure();
    if (succeeded(parser.parseOptionalKeyword("in")) && parseFactorList(parser, basis))
      return failure();
    entries.push_back(CenterEntryAttr::get(parser.getContext(), mean, basis));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseEntry))
    return failure();
  center = ArrayAttr::get(parser.getContext(), entries);
  return success();
}

Type RowsType::parse(AsmParser &parser) {
  SmallVector<int64_t> dims;
  Type element;
  ArrayAttr basis = ArrayAttr::get(parser.getContext(), {}), center = basis;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseDimensionList(dims, /*allowDynamic=*/true) ||
      parser.parseType(element))
    return {};
  if (dims.size() != 2 || ShapedType::isDynamic(dims[1])) {
    parser.emitError(loc, "expects rows<TOKENSxDIMxELEMENT> with a static head dim");
    return {};
  }
  while (succeeded(parser.parseOptionalComma())) {
    StringRef keyword;
    SMLoc keywordLoc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword) || parser.parseEqual())
      return {};
    if (keyword != "basis" && keyword != "center") {
      parser.emitError(keywordLoc, "expected basis or center, got '") << keyword << "'";
      return {};
    }
    if (keyword == "basis" ? parseFactorList(parser, basis) : parseCenter(parser, center))
      return {};
  }
  if (parser.parseGreater())
    return {};
  // The text may hold any list of factors that fit; the type holds the normal form.
  if (failed(verifyFactors(basis, dims[1], [&] { return parser.emitError(loc); })))
    return {};
  basis = composeBasis(ArrayAttr::get(parser.getContext(), {}), basis);
  return parser.getChecked<RowsType>(loc, parser.getContext(), dims[0], dims[1], element, basis,
                                     center);
}

void RowsType::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printDimensionList({getRows(), getDim()});
  printer << "x" << getElement();
  if (!getBasis().empty()) {
    printer << ", basis = ";
    printFactorList(printer, getBasis());
  }
  if (!getCenter().empty()) {
    printer << ", center = [";
    llvm::interleaveComma(getCenter().getAsRange<CenterEntryAttr>(), printer,
                          [&](CenterEntryAttr entry) {
                            printer << entry.getMean();
                            if (!entry.getBasis().empty()) {
                              printer << " in ";
                              printFactorList(printer, entry.getBasis());
                            }
                          });
    printer << "]";
  }
  printer << ">";
}

static LogicalResult verifyGroup(function_ref<InFlightDiagnostic()> emitError, RowsType rows,
                                 int64_t size) {
  int64_t dim = rows.getDim();
  if (size < 1 || dim % size || (size != dim && size % 32))
    return emitError() << "expects a group size that divides the head dim " << dim
                       << " and is a multiple of 32 or the head dim itself, got " << size;
  return success();
}

LogicalResult GroupedType::verify(function_ref<InFlightDiagnostic()> emitError, RowsType rows,
                                  int64_t size) {
  return verifyGroup(emitError, rows, size);
}

LogicalResult CodesType::verify(function_ref<InFlightDiagnostic()> emitError, RowsType rows,
                                int64_t group, int64_t bits, Form, Type params) {
  if (failed(verifyGroup(emitError, rows, group)))
    return failure();
  if (bits < 1 || bits > 8)
    return emitError() << "expects codes of 1 to 8 bits, got " << bits;
  if (!isStoredFloat(params))
    return emitError() << "expects parameters of f16, bf16 or f32, got " << params;
  return success();
}

void KVQDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/KVQTypes.cpp.inc"
      >();
}

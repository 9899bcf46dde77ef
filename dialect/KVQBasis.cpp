// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialect/KVQBasis.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::kvq;

Attribute mlir::kvq::inverseFactor(Attribute factor) {
  if (auto dense = dyn_cast<DenseAttr>(factor))
    return DenseAttr::get(dense.getContext(), dense.getMatrix(), !dense.getInverse());
  return factor;
}

ArrayAttr mlir::kvq::composeBasis(ArrayAttr basis, ArrayAttr factors) {
  SmallVector<Attribute> out(basis.begin(), basis.end());
  for (Attribute factor : factors) {
    if (!out.empty() && out.back() == inverseFactor(factor))
      out.pop_back();
    else
      out.push_back(factor);
  }
  return ArrayAttr::get(basis.getContext(), out);
}

ArrayAttr mlir::kvq::inverseBasis(ArrayAttr basis) {
  SmallVector<Attribute> out;
  for (Attribute factor : llvm::reverse(basis))
    out.push_back(inverseFactor(factor));
  return ArrayAttr::get(basis.getContext(), out);
}

ArrayAttr mlir::kvq::pathBetween(ArrayAttr from, ArrayAttr to) {
  return composeBasis(inverseBasis(from), to);
}

static LogicalResult verifyHadamard(int64_t order, int64_t dim,
                                    function_ref<InFlightDiagnostic()> emitError) {
  if (order == dim && llvm::isPowerOf2_64(dim))
    return success();
  int64_t block = dim & -dim;
  InFlightDiagnostic diag = emitError();
  diag << "expects hadamard<n> with n a power of two equal to the head dim " << dim
       << ", got hadamard<" << order << ">";
  if (!llvm::isPowerOf2_64(dim) && block > 1)
    diag << "; use block_hadamard<" << block << ">";
  return diag;
}

LogicalResult mlir::kvq::verifyFactors(ArrayAttr factors, int64_t dim,
                                       function_ref<InFlightDiagnostic()> emitError) {
  for (Attribute factor : factors) {
    if (auto hadamard = dyn_cast<HadamardAttr>(factor)) {
      if (failed(verifyHadamard(hadamard.getOrder(), dim, emitError)))
        return failure();
    } else if (auto block = dyn_cast<BlockHadamardAttr>(factor)) {
      int64_t order = block.getOrder();
      if (order < 2 || !llvm::isPowerOf2_64(order) || dim % order)
        return emitError()
               << "expects block_hadamard<m> with m a power of two dividing the head dim " << dim
               << ", got block_hadamard<" << order << ">";
    } else if (!isa<DenseAttr>(factor)) {
      return emitError() << "expects factors hadamard, block_hadamard or dense, got " << factor;
    }
  }
  return success();
}

static ParseResult parseFactor(AsmParser &parser, Attribute &factor) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  if (keyword == "hadamard")
    factor = HadamardAttr::parse(parser, {});
  else if (keyword == "block_hadamard")
    factor = BlockHadamardAttr::parse(parser, {});
  else if (keyword == "dense")
    factor = DenseAttr::parse(parser, {});
  else
    return parser.emitError(loc, "expected hadamard, block_hadamard or dense, got '")
           << keyword << "'";
  return success(factor != nullptr);
}

ParseResult mlir::kvq::parseFactorList(AsmParser &parser, ArrayAttr &factors) {
  SmallVector<Attribute> list;
  if (succeeded(parser.parseOptionalLSquare())) {
    if (failed(parser.parseOptionalRSquare())) {
      do {
        if (parseFactor(parser, list.emplace_back()))
          return failure();
      } while (succeeded(parser.parseOptionalComma()));
      if (parser.parseRSquare())
        return failure();
    }
  } else if (parseFactor(parser, list.emplace_back())) {
    return failure();
  }
  factors = ArrayAttr::get(parser.getContext(), list);
  return success();
}

void mlir::kvq::printFactorList(AsmPrinter &printer, ArrayAttr factors) {
  printer << "[";
  llvm::interleaveComma(factors, printer, [&](Attribute factor) {
    llvm::TypeSwitch<Attribute>(factor)
        .Case<HadamardAttr>([&](auto attr) { printer << "hadamard<" << attr.getOrder() << ">"; })
        .Case<BlockHadamardAttr>(
            [&](auto attr) { printer << "block_hadamard<" << attr.getOrder() << ">"; })
        .Case<DenseAttr>([&](auto attr) {
          printer << "dense";
          attr.print(printer);
        })
        .Default([&](Attribute attr) { printer << attr; });
  });
  printer << "]";
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bases in normal form. A basis is a list of rotation factors (HadamardAttr, BlockHadamardAttr,
// DenseAttr), applied to row vectors from left to right; no two neighbours are inverse to each
// other. The empty list is the model's own basis.
#pragma once

#include "dialect/KVQTypes.h"

namespace mlir::kvq {

/// The factor that undoes `factor`: Hadamard factors are their own inverse, a dense one is
/// transposed.
Attribute inverseFactor(Attribute factor);

/// `basis` followed by `factors`, in normal form.
ArrayAttr composeBasis(ArrayAttr basis, ArrayAttr factors);

/// The factors that lead back: reversed order, each inverted.
ArrayAttr inverseBasis(ArrayAttr basis);

/// The factors that lead from one basis to the other: compose(from, path) == to.
ArrayAttr pathBetween(ArrayAttr from, ArrayAttr to);

/// Checks the orders of the factors against a head dim; emits one diagnostic through `emitError`.
LogicalResult verifyFactors(ArrayAttr factors, int64_t dim,
                            function_ref<InFlightDiagnostic()> emitError);

/// `hadamard<64>`, `[dense<@t::@u>, hadamard<64>]`; `parseFactors` also takes one factor without
/// brackets.
ParseResult parseFactorList(AsmParser &parser, ArrayAttr &factors);
void printFactorList(AsmPrinter &printer, ArrayAttr factors);

} // namespace mlir::kvq

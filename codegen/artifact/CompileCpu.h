// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a method to a CPU shared object, stage by stage.
#pragma once

#include "codegen/target/CpuObject.h"
#include "runtime/format/method.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::kvq {

/// Loads the dialects that the code generator uses into `context`.
void loadCodegenDialects(MLIRContext &context);

/// Sees each stage of a compile: its name (`tiles`, `upstream`, `llvm`) and its text, made on
/// demand.
using StageObserver =
    llvm::function_ref<void(llvm::StringRef name, llvm::function_ref<void(llvm::raw_ostream &)>)>;

/// The object of the kernels of `method`; diagnostics at `loc`.
FailureOr<std::string> compileCpuObject(Location loc, const ::kvq::CacheMethod &method,
                                        CpuLevel level, StageObserver observe);

/// Likewise, linked into a shared object.
FailureOr<std::string> compileCpuShared(Location loc, const ::kvq::CacheMethod &method,
                                        CpuLevel level, StageObserver observe);

} // namespace mlir::kvq

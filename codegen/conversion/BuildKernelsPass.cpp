// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kvq-build-kernels: a cache and its fused attention become kernels made of tile ops.
//
//   kvq.cache @c {...}                           func.func @kvq_append(%args: !llvm.ptr, %item:
//   i64) %o = kvq.fused_attention %q, @c ...     ->   func.func @kvq_prepare, @kvq_decode,
//   @kvq_merge
//
// Test: lit/codegen/build-kernels.mlir.
#include "codegen/Passes.h"
#include "codegen/conversion/BuildKernels.h"
#include "codegen/conversion/FindCache.h"
#include "passes/analysis/ReadMethod.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::kvq {

#define GEN_PASS_DEF_BUILDKERNELS
#include "codegen/Passes.h.inc"

FailureOr<CacheAttention> findCache(ModuleOp module) {
  CacheAttention found;
  WalkResult walk = module.walk([&](FusedAttentionOp attention) {
    if (found.attention) {
      InFlightDiagnostic error =
          attention.emitOpError("is the second in its module; the code generator expects one");
      error.attachNote(found.attention.getLoc()) << "the first is here";
      return WalkResult::interrupt();
    }
    found.attention = attention;
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  if (!found.attention)
    return module.emitError("the code generator expects a kvq.fused_attention, found none");
  found.cache = SymbolTable::lookupNearestSymbolFrom<CacheOp>(found.attention,
                                                              found.attention.getCacheAttr());
  if (!found.cache)
    return found.attention.emitOpError("expects a kvq.cache named ")
           << found.attention.getCacheAttr();
  return found;
}

namespace {

class BuildKernels : public impl::BuildKernelsBase<BuildKernels> {
public:
  using BuildKernelsBase::BuildKernelsBase;

  void runOnOperation() final {
    if (target != "cpu") {
      getOperation().emitError("expected target cpu, got ") << target;
      return signalPassFailure();
    }
    FailureOr<CacheAttention> found = findCache(getOperation());
    if (failed(found))
      return signalPassFailure();
    FailureOr<::kvq::CacheMethod> method = readMethod(found->cache, found->attention);
    if (failed(method) || failed(buildKernels(getOperation(), found->cache.getLoc(), *method)))
      return signalPassFailure();
  }
};

} // namespace
} // namespace mlir::kvq

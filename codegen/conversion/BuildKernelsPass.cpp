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
#include "codegen/conversion/gpu/BuildGpuKernels.h"
#include "codegen/conversion/gpu/Chip.h"
#include "passes/analysis/ReadMethod.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::kvq {

#define GEN_PASS_DEF_BUILDKERNELS
#include "codegen/Passes.h.inc"

/// Both places stand in the diagnostic.
static LogicalResult refuseSecond(FusedAttentionOp first, FusedAttentionOp second,
                                  const Twine &what) {
  InFlightDiagnostic error = second.emitOpError(what);
  error.attachNote(first.getLoc()) << "the first is here";
  return error;
}

FailureOr<SmallVector<CacheAttention>> findCaches(ModuleOp module) {
  llvm::MapVector<Operation *, FusedAttentionOp> readers;
  WalkResult walk = module.walk([&](FusedAttentionOp attention) {
    auto cache = SymbolTable::lookupNearestSymbolFrom<CacheOp>(attention, attention.getCacheAttr());
    if (!cache) {
      attention.emitOpError("expects a kvq.cache named ") << attention.getCacheAttr();
      return WalkResult::interrupt();
    }
    auto [entry, added] = readers.insert({cache, attention});
    if (added)
      return WalkResult::advance();
    (void)refuseSecond(entry->second, attention,
                       "is the second that reads @" + cache.getSymName() +
                           "; the code generator expects one for each cache");
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();
  if (readers.empty())
    return module.emitError("the code generator expects a kvq.fused_attention, found none");
  SmallVector<CacheAttention> found;
  for (auto &[cache, attention] : readers)
    found.push_back({cast<CacheOp>(cache), attention});
  llvm::stable_sort(found, [](CacheAttention a, CacheAttention b) {
    return a.cache->getBlock() == b.cache->getBlock() && a.cache->isBeforeInBlock(b.cache);
  });
  return found;
}

FailureOr<CacheAttention> findCache(ModuleOp module) {
  FailureOr<SmallVector<CacheAttention>> found = findCaches(module);
  if (failed(found))
    return failure();
  if (found->size() == 1)
    return found->front();
  return refuseSecond(found->front().attention, (*found)[1].attention,
                      "is the second in its module; the code generator expects one here");
}

/// The skeletons have a place for factors that vary by token and channel group,
/// and for constants (the middle of the symmetric form starts the sum); not for what is made anew
/// per tile or applied to every element.
static bool servesFold(FoldAttr fold) {
  switch (fold.getAt()) {
  case FoldPlace::accumulator:
    return fold.getAxes() == "constant";
  case FoldPlace::query_per_tile:
  case FoldPlace::bias_per_tile:
  case FoldPlace::accumulator_per_tile:
  case FoldPlace::elementwise:
    return false;
  default:
    return true;
  }
}

static LogicalResult checkFolding(FusedAttentionOp attention, StringRef target) {
  ArrayAttr folding = attention.getFoldingAttr();
  if (!folding)
    return attention.emitOpError("target ")
           << target << " expects a folding; run kvq-fuse-attention first";
  for (FoldAttr fold : folding.getAsRange<FoldAttr>())
    if (!servesFold(fold))
      return attention.emitOpError("target ")
             << target << " has no place for factor " << fold.getFactor() << " at "
             << stringifyFoldPlace(fold.getAt());
  return success();
}

FailureOr<::kvq::CacheMethod> readTargetMethod(const CacheAttention &found, StringRef target) {
  FusedAttentionOp attention = found.attention;
  if (failed(checkFolding(attention, target)))
    return failure();
  FailureOr<::kvq::CacheMethod> method = readMethod(found.cache, attention);
  if (failed(method))
    return failure();
  CacheOp cache = found.cache;
  std::string reason =
      target == "cpu" ? unsupportedOnCpu(*method) : unsupportedOnGpu(*method, *findChip(target));
  if (!reason.empty())
    return cache.emitOpError(reason);
  return method;
}

namespace {

class BuildKernels : public impl::BuildKernelsBase<BuildKernels> {
public:
  using BuildKernelsBase::BuildKernelsBase;

  void runOnOperation() final {
    std::optional<Chip> chip = findChip(target);
    if (target != "cpu" && !chip) {
      getOperation().emitError("expected target cpu, ") << chipNames() << ", got " << target;
      return signalPassFailure();
    }
    FailureOr<CacheAttention> found = findCache(getOperation());
    if (failed(found))
      return signalPassFailure();
    FailureOr<::kvq::CacheMethod> method = readTargetMethod(*found, target);
    if (failed(method))
      return signalPassFailure();
    Location loc = found->cache.getLoc();
    if (failed(chip ? buildGpuKernels(getOperation(), loc, *method, *chip)
                    : buildKernels(getOperation(), loc, *method)))
      return signalPassFailure();
    eraseSource(found->attention);
  }

private:
  /// Drops what the kernels were built from: the function around the attention, and every
  /// declaration of level 1.
  void eraseSource(FusedAttentionOp attention) {
    attention->getParentOfType<func::FuncOp>().erase();
    for (Operation &op : llvm::make_early_inc_range(*getOperation().getBody()))
      if (isa_and_nonnull<KVQDialect>(op.getDialect()))
        op.erase();
  }
};

} // namespace
} // namespace mlir::kvq

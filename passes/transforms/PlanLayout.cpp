// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialect/KVQ.h"
#include "dialect/KVQRecord.h"
#include "passes/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"

#include "llvm/Support/FormatVariadic.h"

namespace mlir::kvq {

#define GEN_PASS_DEF_PLANLAYOUT
#include "passes/Passes.h.inc"

namespace {

struct PlanLayout : impl::PlanLayoutBase<PlanLayout> {
  using PlanLayoutBase::PlanLayoutBase;

  void runOnOperation() override {
    WalkResult result = getOperation().walk([&](CacheOp cache) {
      return succeeded(plan(cache)) ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  LogicalResult plan(CacheOp cache) {
    ::kvq::RecordSpec spec = recordSpecOf(cache);
    if (page < 0 || page > std::numeric_limits<int>::max())
      return cache.emitOpError("expects a page of at least one tile, got option page = ")
             << page.getValue();
    if (page)
      spec.page = static_cast<int>(page);
    if (std::string rule = ::kvq::verifyRecord(spec); !rule.empty())
      return cache.emitOpError("has no legal record for a page of ")
             << spec.page << " tokens: " << rule;
    ::kvq::RecordLayout layout = ::kvq::buildRecord(spec);
    double bits = ::kvq::bitsPerElement(layout);
    cache.setPage(spec.page);
    cache.setRecordAttr(RecordAttr::get(&getContext(), layout.bytes, layout.stride,
                                        Builder(&getContext()).getF64FloatAttr(bits)));
    remark::analysis(cache.getLoc(), remark::RemarkOpts::name("record").category("kvq-plan-layout"))
        << llvm::formatv(
               "a page of {0} tokens takes {1} bytes per KV head, stride {2}, {3:F3} bits "
               "per element",
               spec.page, layout.bytes, layout.stride, bits)
               .str();
    return success();
  }
};

} // namespace
} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialect/KVQ.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <cmath>

namespace mlir::kvq {

#define GEN_PASS_DEF_DEFAULTATTENTION
#include "passes/Passes.h.inc"

namespace {

struct DefaultAttention : impl::DefaultAttentionBase<DefaultAttention> {
  void runOnOperation() override {
    DenseSet<Operation *> read;
    getOperation().walk([&](Operation *op) {
      FlatSymbolRefAttr cache;
      if (auto attention = dyn_cast<AttentionOp>(op))
        cache = attention.getCacheAttr();
      else if (auto fused = dyn_cast<FusedAttentionOp>(op))
        cache = fused.getCacheAttr();
      if (cache)
        read.insert(SymbolTable::lookupNearestSymbolFrom(op, cache));
    });
    SmallVector<CacheOp> unread;
    for (CacheOp cache : getOperation().getOps<CacheOp>())
      if (!read.contains(cache))
        unread.push_back(cache);
    for (CacheOp cache : unread)
      if (failed(addAttention(cache)))
        return signalPassFailure();
  }

  LogicalResult addAttention(CacheOp cache) {
    std::string name = (cache.getSymName() + "_decode").str();
    if (Operation *taken = getOperation().lookupSymbol(name)) {
      InFlightDiagnostic diag = cache.emitOpError("expects the name @")
                                << name << " to be free for its attention, or an attention that "
                                << "reads the cache";
      diag.attachNote(taken->getLoc()) << "the name is taken here";
      return diag;
    }
    RowsType key = cache.getKeyPipeline().getRowsOp().getType();
    int64_t valueDim = cache.getValuePipeline().getRowsOp().getType().getDim();
    auto result = RowsType::get(key.getRows(), valueDim, key.getElement());
    Location loc = cache.getLoc();
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    auto function =
        func::FuncOp::create(builder, loc, name, builder.getFunctionType({key}, {result}));
    builder.setInsertionPointToStart(function.addEntryBlock());
    double scale = 1 / std::sqrt(static_cast<double>(key.getDim()));
    auto attention = AttentionOp::create(
        builder, loc, result, function.getArgument(0), FlatSymbolRefAttr::get(cache),
        builder.getF64FloatAttr(scale), builder.getUnitAttr(), /*softcap=*/{}, /*window=*/{},
        /*sinks=*/{}, /*q_len=*/builder.getI64IntegerAttr(1));
    func::ReturnOp::create(builder, loc, attention.getResult());
    return success();
  }
};

} // namespace
} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialect/KVQ.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::kvq {

#define GEN_PASS_DEF_PLACEROTATIONS
#include "passes/Passes.h.inc"

namespace {

bool isCentred(PipelineOp pipeline) { return !pipeline.getStoredRows().getCenter().empty(); }

/// Rotates `rows` by `factors` into rows of `element`.
Value rotate(OpBuilder &builder, Location loc, Value rows, ArrayAttr factors, Type element) {
  TypeAttr as;
  if (cast<RowsType>(rows.getType()).getElement() != element)
    as = TypeAttr::get(element);
  return RotateOp::create(builder, loc, cast<TypedValue<RowsType>>(rows), factors, as).getResult();
}

struct PlaceRotations : impl::PlaceRotationsBase<PlaceRotations> {
  using PlaceRotationsBase::PlaceRotationsBase;

  void runOnOperation() override {
    if (output != "rotate" && output != "weights") {
      getOperation().emitError("kvq-place-rotations expects output=rotate or output=weights, got '")
          << output << "'";
      return signalPassFailure();
    }
    SmallVector<AttentionOp> attentions;
    getOperation().walk([&](AttentionOp op) { attentions.push_back(op); });
    // Check everything first: a refused module is left as it was.
    for (AttentionOp op : attentions)
      if (failed(checkWeights(op)))
        return signalPassFailure();
    for (AttentionOp op : attentions)
      place(op);
  }

  CacheOp cacheOf(AttentionOp op) {
    return SymbolTable::lookupNearestSymbolFrom<CacheOp>(op, op.getCacheAttr());
  }

  bool foldsIntoWeights(AttentionOp op) { return output == "weights" && !valueBasis(op).empty(); }

  ArrayAttr valueBasis(AttentionOp op) {
    return cacheOf(op).getValuePipeline().getStoredRows().getBasis();
  }

  /// Rows in another basis may leave through a return only: the output projection comes next.
  LogicalResult checkWeights(AttentionOp op) {
    if (!foldsIntoWeights(op))
      return success();
    for (Operation *user : op.getResult().getUsers()) {
      if (isa<func::ReturnOp>(user) && isa<func::FuncOp>(user->getParentOp()))
        continue;
      InFlightDiagnostic diag = op.emitOpError("cannot leave its result in the basis of the "
                                               "values: something other than a return uses it");
      diag.attachNote(user->getLoc()) << "used here";
      diag.attachNote(cacheOf(op).getValuePipeline().getLoc()) << "the values are rotated here";
      return diag;
    }
    return success();
  }

  void place(AttentionOp op) {
    OpBuilder builder(op);
    CacheOp cache = cacheOf(op);
    PipelineOp key = cache.getKeyPipeline(), value = cache.getValuePipeline();
    RowsType model = op.getType();
    ArrayAttr basis = value.getStoredRows().getBasis();
    bool turnsBack = !basis.empty() && output == "rotate";

    Value query = op.getQuery();
    if (ArrayAttr path = key.getStoredRows().getBasis(); !path.empty())
      query = rotate(builder, op.getLoc(), query, path, builder.getF32Type());
    RowsType type = model.withBasis(basis);
    if (turnsBack)
      type = type.withElement(builder.getF32Type());

    bool softcap = op.getSoftcapAttr() != nullptr;
    auto flag = [&](bool set) { return set ? builder.getUnitAttr() : UnitAttr(); };
    auto fused = FusedAttentionOp::create(
        builder, op.getLoc(), type, query, op.getCacheAttr(), op.getScaleAttr(), op.getCausalAttr(),
        op.getSoftcapAttr(), op.getWindowAttr(), op.getSinksAttr(), op.getQLenAttr(),
        flag(isCentred(key) && softcap), flag(isCentred(key) && !softcap), flag(isCentred(value)),
        /*folding=*/{});
    Value result = fused.getResult();
    if (turnsBack)
      result = rotate(builder, op.getLoc(), result, inverseBasis(basis), model.getElement());
    op.getResult().replaceAllUsesWith(result);
    if (foldsIntoWeights(op))
      returnRotated(result, basis);
    op.erase();
  }

  /// The function now returns rows in `basis`, and says what the output projection must hold.
  void returnRotated(Value result, ArrayAttr basis) {
    for (OpOperand &use : result.getUses()) {
      auto function = cast<func::FuncOp>(use.getOwner()->getParentOp());
      SmallVector<Type> results(function.getResultTypes());
      results[use.getOperandNumber()] = result.getType();
      function.setType(FunctionType::get(&getContext(), function.getArgumentTypes(), results));
      function->setAttr("kvq.output_weights", inverseBasis(basis));
    }
  }
};

} // namespace
} // namespace mlir::kvq

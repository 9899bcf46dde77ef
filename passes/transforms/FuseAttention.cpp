// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Dequantization.h"
#include "passes/analysis/ReadMethod.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"

namespace mlir::kvq {

#define GEN_PASS_DEF_FUSEATTENTION
#include "passes/Passes.h.inc"

namespace {

constexpr StringLiteral kCategory = "kvq-fuse-attention";

/// One remark per factor and one with the sum.
void report(FusedAttentionOp op, const folding::Plan &plan, StringRef side) {
  auto remark = [&](const std::string &text) {
    remark::passed(op.getLoc(), remark::RemarkOpts::name(side).category(kCategory)) << text;
  };
  for (size_t i = 0; i < plan.places.size(); ++i) {
    const folding::Factor &factor = plan.composition.factors[i];
    remark(factor.name + " (" + folding::axesText(factor.axes) + ") goes to " +
           folding::placeName(plan.places[i]) + ": " + folding::costText(plan.costs[i]));
  }
  remark("in all " + folding::costText(plan.total));
}

struct FuseAttention : impl::FuseAttentionBase<FuseAttention> {
  using FuseAttentionBase::FuseAttentionBase;

  void runOnOperation() override {
    getOperation().walk([&](FusedAttentionOp op) {
      if (!op.getFoldingAttr())
        fuse(op);
    });
  }

  void fuse(FusedAttentionOp op) {
    auto cache = SymbolTable::lookupNearestSymbolFrom<CacheOp>(op, op.getCacheAttr());
    folding::Plan key = planKey(op, cache.getKeyPipeline());
    folding::Plan value = planValue(op, cache.getValuePipeline());
    report(op, key, "key");
    report(op, value, "value");
    SmallVector<Attribute> folds;
    append(folds, key, "k.");
    append(folds, value, "v.");
    op.setFoldingAttr(ArrayAttr::get(&getContext(), folds));
  }

  folding::Composition composition(PipelineOp pipeline, bool centredCodes) {
    ConstantTable table;
    ::kvq::SideMethod side = readSide(pipeline, table);
    return folding::dequantization(side, table.constants(), ::kvq::RecordSpec().block,
                                   centredCodes);
  }

  folding::Plan planKey(FusedAttentionOp op, PipelineOp pipeline) {
    folding::ScoreRules rules;
    rules.shiftInvariant = !op.getSoftcapAttr();
    rules.exportsLogSumExp = op.getFixLse();
    return folding::placeKey(composition(pipeline, false), rules);
  }

  folding::Plan planValue(FusedAttentionOp op, PipelineOp pipeline) {
    folding::Composition row = composition(pipeline, integerWeights);
    if (!rotatesOutputBack(op))
      turnForward(row);
    return folding::placeValue(row);
  }

  /// The result stays in the basis of the values: multiplies the row by the forward rotation once
  /// more, factor by factor, so that the inverse cancels.
  static void turnForward(folding::Composition &row) {
    for (int i = static_cast<int>(row.factors.size()) - 1; i >= 0; --i)
      if (row.factors[i].kind == folding::Factor::Kind::rotation) {
        folding::Factor forward = row.factors[i];
        forward.transposed = !forward.transposed;
        row.factors.push_back(forward);
      }
  }

  void append(SmallVectorImpl<Attribute> &folds, const folding::Plan &plan, StringRef prefix) {
    for (size_t i = 0; i < plan.places.size(); ++i) {
      const folding::Factor &factor = plan.composition.factors[i];
      std::optional<FoldPlace> place = symbolizeFoldPlace(folding::placeName(plan.places[i]));
      assert(place && "the dialect names every place of the algebra");
      folds.push_back(FoldAttr::get(&getContext(), (prefix + factor.name).str(),
                                    folding::axesText(factor.axes), *place,
                                    folding::costText(plan.costs[i])));
    }
  }
};

} // namespace
} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kvq-lower-tiles-gpu: every tile op becomes the ops of its pattern, for a warp; rows and fragments
// become thread-private memory that LLVM promotes to registers.
//
//   %s = kvq.tile.init_softmax {queries = 4} : () -> !kvq.fragment<softmax>
//     ->  %s = llvm.alloca ..., and the stores that clear it
//
// Tests: lit/codegen/gpu/tile-*.mlir.
#include "codegen/Passes.h"
#include "codegen/conversion/gpu/GpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/ADT/DenseSet.h"

namespace mlir::kvq {

#define GEN_PASS_DEF_LOWERTILESGPU
#include "codegen/Passes.h.inc"

const GpuLowering::Entry &GpuLowering::entry(TileRecordAttr record) {
  std::unique_ptr<Entry> &known = entries[record.getAsOpaquePointer()];
  if (!known) {
    known = std::make_unique<Entry>();
    FragmentMap::build(record.getSpec(), known->map);
    known->layout = ::kvq::buildRecord(known->map.spec);
  }
  return *known;
}

const FragmentMap &GpuLowering::map(TileRecordAttr record) { return entry(record).map; }
const ::kvq::RecordLayout &GpuLowering::layout(TileRecordAttr record) {
  return entry(record).layout;
}

std::string GpuLowering::checkRecord(TileRecordAttr record) {
  FragmentMap map;
  return FragmentMap::build(record.getSpec(), map);
}

namespace {

/// A lane holds every 32nd channel, so that whole warps share rows, groups and scopes.
std::string unsupportedCount(const char *what, int64_t channels) {
  if (channels % 32 == 0)
    return "";
  return std::string("the gpu targets expect ") + what + " of a multiple of 32 channels, got " +
         std::to_string(channels);
}

/// Why no pattern of this target can serve `op`, whatever its record.
std::string unsupported(Operation *op) {
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (Type type : types)
    if (auto row = dyn_cast<TileRowType>(type))
      if (std::string reason = unsupportedCount("rows", row.getDim()); !reason.empty())
        return reason;
  if (auto clip = dyn_cast<TileClipOp>(op))
    return unsupportedCount("scopes", clip.getScope());
  if (auto quantize = dyn_cast<TileQuantizeOp>(op))
    return unsupportedCount("groups", quantize.getSide().getGroup());
  if (auto output = dyn_cast<TileInitOutputOp>(op); output && !output.getPartial())
    return "the gpu targets expect a partial to keep the fp32 sums in, found none";
  if (auto softmax = dyn_cast<TileInitSoftmaxOp>(op); softmax && !softmax.getRecord())
    return "the gpu targets expect a record that says the value groups, found none";
  return "";
}

class LowerTilesGpu : public impl::LowerTilesGpuBase<LowerTilesGpu> {
public:
  using LowerTilesGpuBase::LowerTilesGpuBase;

  void runOnOperation() final {
    GpuLowering lowering;
    if (failed(checkOps()))
      return signalPassFailure();
    TypeConverter converter;
    ConversionTarget target(getContext());
    setUpTileConversion(&getContext(), converter, target);
    RewritePatternSet patterns(&getContext());
    populateRowPatterns(patterns, converter, lowering);
    populateRotatePatterns(patterns, converter, lowering);
    populateClipPatterns(patterns, converter, lowering);
    populateQuantizePatterns(patterns, converter, lowering);
    populateStoreRecordPatterns(patterns, converter, lowering);
    populateQueryPatterns(patterns, converter, lowering);
    populateScorePatterns(patterns, converter, lowering);
    populateMaskPatterns(patterns, converter, lowering);
    populateSoftmaxPatterns(patterns, converter, lowering);
    populateOutputPatterns(patterns, converter, lowering);
    populateWindowPatterns(patterns, converter, lowering);
    populateMergePatterns(patterns, converter, lowering);
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns, target);
    FrozenRewritePatternSet frozen(std::move(patterns));
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>())
      if (failed(applyPartialConversion(function, target, frozen)))
        return signalPassFailure();
  }

private:
  /// One diagnostic for the first op that this target cannot serve.
  LogicalResult checkOps() {
    llvm::SmallDenseSet<Attribute> checked;
    return checkTileOps(getOperation(), [&](Operation *op) {
      std::string reason = unsupported(op);
      auto record = op->getAttrOfType<TileRecordAttr>("record");
      if (reason.empty() && record && checked.insert(record).second)
        reason = GpuLowering::checkRecord(record);
      return reason;
    });
  }
};

} // namespace
} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kvq-lower-tiles-cpu: every tile op becomes the ops of its pattern; rows and fragments become
// addresses.
//
//   %s = kvq.tile.init_softmax {queries = 1} : () -> !kvq.fragment<softmax>
//     ->  %s = llvm.alloca ..., and the stores that clear it
//
// Tests: lit/codegen/tile-*.mlir.
#include "codegen/Passes.h"
#include "codegen/conversion/cpu/CpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/ADT/DenseSet.h"

namespace mlir::kvq {

#define GEN_PASS_DEF_LOWERTILESCPU
#include "codegen/Passes.h.inc"

const TileMap &CpuLowering::map(TileRecordAttr record) {
  std::unique_ptr<TileMap> &entry = maps[record.getAsOpaquePointer()];
  if (!entry) {
    entry = std::make_unique<TileMap>();
    TileMap::build(record.getSpec(), *entry);
  }
  return *entry;
}

std::string CpuLowering::checkRecord(TileRecordAttr record) {
  for (TileSideAttr side : {record.getK(), record.getV()})
    if (side.getDim() % 32 || (side.getBits() != 2 && side.getBits() != 4 && side.getBits() != 8))
      return "target cpu expects head dims that are multiples of 32 and 2, 4 or 8 bits, got dim "
             "= " +
             std::to_string(side.getDim()) + " and bits = " + std::to_string(side.getBits());
  TileMap map;
  return TileMap::build(record.getSpec(), map);
}

namespace {

class LowerTilesCpu : public impl::LowerTilesCpuBase<LowerTilesCpu> {
public:
  using LowerTilesCpuBase::LowerTilesCpuBase;

  void runOnOperation() final {
    CpuLowering lowering({fma, f16c});
    if (failed(checkRecords(lowering)))
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
    populateCombinePatterns(patterns, converter, lowering);
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns, target);
    FrozenRewritePatternSet frozen(std::move(patterns));
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(applyPartialConversion(function, target, frozen)))
        return signalPassFailure();
  }

private:
  /// One diagnostic for the first op whose record this target cannot serve.
  LogicalResult checkRecords(CpuLowering &lowering) {
    llvm::SmallDenseSet<Attribute> checked;
    return checkTileOps(getOperation(), [&](Operation *op) -> std::string {
      if (auto tiles = op->getAttrOfType<IntegerAttr>("tiles"); tiles && tiles.getInt() != 1)
        return "target cpu expects tiles = 1, got " + std::to_string(tiles.getInt());
      auto record = op->getAttrOfType<TileRecordAttr>("record");
      return record && checked.insert(record).second ? lowering.checkRecord(record) : "";
    });
  }
};

} // namespace
} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the lowerings of tile ops share over all targets: rows and fragments become addresses, and
// every tile op is replaced by one pattern.
#pragma once

#include "dialect/KVQTile.h"

#include "mlir/Transforms/DialectConversion.h"

namespace mlir::kvq {

/// Rows and fragments become addresses; no tile op is legal, and what patterns emit is.
void setUpTileConversion(MLIRContext *context, TypeConverter &converter, ConversionTarget &target);

/// One diagnostic for the first op below `module` for which `refuse` gives a reason.
LogicalResult checkTileOps(ModuleOp module, function_ref<std::string(Operation *)> refuse);

/// Lowers `Op`; `lower` returns the values that replace its results. `Lowering` is what all
/// patterns of one lowering share; its `emitter` makes an `Emitter`.
template <typename Op, typename Lowering> class TilePattern : public OpConversionPattern<Op> {
public:
  using Adaptor = typename Op::Adaptor;
  using Emitter = typename Lowering::Emitter;

  TilePattern(const TypeConverter &converter, MLIRContext *context, Lowering &lowering)
      : OpConversionPattern<Op>(converter, context), lowering(lowering) {}

  LogicalResult matchAndRewrite(Op op, Adaptor adaptor,
                                ConversionPatternRewriter &rewriter) const final {
    Emitter emit = lowering.emitter(rewriter, op.getLoc());
    rewriter.replaceOp(op, lower(op, adaptor, emit));
    return success();
  }

protected:
  virtual SmallVector<Value> lower(Op op, Adaptor adaptor, Emitter &emit) const = 0;

  Lowering &lowering;
};

} // namespace mlir::kvq

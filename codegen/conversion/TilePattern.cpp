// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/TilePattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::kvq {

void setUpTileConversion(MLIRContext *context, TypeConverter &converter, ConversionTarget &target) {
  Type pointer = LLVM::LLVMPointerType::get(context);
  converter.addConversion([](Type type) { return type; });
  converter.addConversion([=](TileRowType) { return pointer; });
  converter.addConversion([=](FragmentType) { return pointer; });
  target.addLegalDialect<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect,
                         math::MathDialect, vector::VectorDialect>();
  target.addDynamicallyLegalDialect<KVQDialect>(
      [](Operation *op) { return !op->getName().getStringRef().starts_with("kvq.tile."); });
}

LogicalResult checkTileOps(ModuleOp module, function_ref<std::string(Operation *)> refuse) {
  WalkResult result = module.walk([&](Operation *op) {
    std::string reason = refuse(op);
    if (reason.empty())
      return WalkResult::advance();
    op->emitOpError(reason);
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/ReadMethod.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/Format.h"

#include <cstring>

namespace mlir::kvq {

#define GEN_PASS_DEF_PRINTMETHOD
#include "passes/Passes.h.inc"

namespace {

struct PrintMethod : impl::PrintMethodBase<PrintMethod> {
  using PrintMethodBase::PrintMethodBase;

  void runOnOperation() override {
    WalkResult result = getOperation().walk([&](FusedAttentionOp attention) {
      return succeeded(print(attention)) ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
    markAllAnalysesPreserved();
  }

  LogicalResult print(FusedAttentionOp attention) {
    auto cache = SymbolTable::lookupNearestSymbolFrom<CacheOp>(attention, attention.getCacheAttr());
    FailureOr<::kvq::CacheMethod> method = readMethod(cache, attention);
    if (failed(method))
      return failure();
    std::vector<char> blob;
    if (constants && failed(packConstants(*method, cache, attention, blob)))
      return failure();
    llvm::outs() << ::kvq::methodText(*method);
    if (!constants)
      return success();
    llvm::outs() << "constants: " << blob.size() << " bytes\n";
    for (const ::kvq::Constant &constant : method->constants)
      printConstant(constant, blob);
    return success();
  }

  /// The first value of each layer and head.
  static void printConstant(const ::kvq::Constant &constant, const std::vector<char> &blob) {
    int64_t inner = 1;
    for (size_t i = 2; i < constant.shape.size(); ++i)
      inner *= constant.shape[i];
    llvm::outs() << "  " << constant.name << " at " << constant.offset << ":";
    for (int64_t i = 0; i < constant.shape[0] * constant.shape[1]; ++i) {
      float value;
      std::memcpy(&value, blob.data() + constant.offset + i * inner * sizeof(value), sizeof(value));
      llvm::outs() << " " << llvm::format("%g", value);
    }
    llvm::outs() << "\n";
  }
};

} // namespace
} // namespace mlir::kvq

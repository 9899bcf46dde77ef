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
    if (constants && failed(packConstants(*method, cache, blob)))
      return failure();
    llvm::outs() << ::kvq::methodText(*method);
    if (!constants)
      return success();
    llvm::outs() << "constants: " << blob.size() << " bytes\n";
    for (const ::kvq::Constant &constant : method->constants) {
      float first;
      std::memcpy(&first, blob.data() + constant.offset, sizeof(first));
      llvm::outs() << "  " << constant.name << " at " << constant.offset << ": "
                   << llvm::format("%g", first) << ", ...\n";
    }
    return success();
  }
};

} // namespace
} // namespace mlir::kvq

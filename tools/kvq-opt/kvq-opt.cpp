// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kvq-opt: reads .mlir, runs passes, prints .mlir.
#include "dialect/KVQ.h"
#ifdef KVQ_HAS_MLIRKvqPasses
#include "passes/Passes.h"
#endif
#ifdef KVQ_HAS_MLIRKvqCodegen
#include "codegen/Passes.h"
#endif

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::kvq::KVQDialect>();
  mlir::registerTransformsPasses();
#ifdef KVQ_HAS_MLIRKvqPasses
  mlir::kvq::registerKvqPasses();
#endif
#ifdef KVQ_HAS_MLIRKvqCodegen
  mlir::kvq::registerCodegen();
#endif
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "kvq pass driver\n", registry));
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kvq-opt: reads .mlir, runs passes, prints .mlir.
#include "codegen/Passes.h"
#include "dialect/KVQ.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::kvq::KVQDialect,
                  mlir::LLVM::LLVMDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                  mlir::vector::VectorDialect>();
  mlir::registerTransformsPasses();
  mlir::kvq::registerKvqPasses();
  mlir::kvq::registerCodegen();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "kvq pass driver\n", registry));
}

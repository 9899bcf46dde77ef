// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the code generator: from level 2 to tile ops, and from tile ops to upstream dialects.
#ifndef KVQ_CODEGEN_PASSES
#define KVQ_CODEGEN_PASSES

include "mlir/Pass/PassBase.td"

def BuildKernels : Pass<"kvq-build-kernels", "::mlir::ModuleOp"> {
  let summary = "replaces a cache and its attention by kernels, functions of tile ops";
  let description = [{
    Reads the cache and its fused attention, and puts one function per kernel of the target in their place: skeletons of
    loops over splits, pages and tiles around tile ops. Values of constants do not stay: they are data of a library. A
    cache that the target cannot serve is refused with one diagnostic, and nothing changes.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "target whose kernels are built: cpu">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::scf::SCFDialect"];
}

def LowerTilesCpu : Pass<"kvq-lower-tiles-cpu", "::mlir::ModuleOp"> {
  let summary = "lowers each tile op to vector, arith, math, scf and llvm ops";
  let description = [{
    One pattern per tile op. Fragments become stack memory of the enclosing function. `fma` and `f16c` say what the CPU
    has; codes do not depend on them.
  }];
  let options = [
    Option<"fma", "fma", "bool", "true", "fused multiply-add exists">,
    Option<"f16c", "f16c", "bool", "true", "conversion between f16 and f32 exists">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def LowerTilesGpu : Pass<"kvq-lower-tiles-gpu", "::mlir::ModuleOp"> {
  let summary = "lowers each tile op to arith, scf and llvm ops for a warp of an NVIDIA GPU";
  let description = [{
    One pattern per tile op. Fragments become thread-private memory that LLVM promotes to registers. The patterns need
    sm_80; what later chips have is the skeletons' business.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

#endif // KVQ_CODEGEN_PASSES

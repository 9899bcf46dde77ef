// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace mlir::kvq {

/// What the CPU lowering may use. Every combination gives the same codes; decode differs in the
/// last bits.
struct CpuFeatures {
  bool fma = true;  ///< fused multiply-add in decode; else a multiply and an add
  bool f16c = true; ///< hardware conversion between f16 and f32; else integer arithmetic
};

} // namespace mlir::kvq

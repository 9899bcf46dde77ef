// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic of the CPU target that upstream dialects do not fix to the bit: element type
// conversions, rounding of codes, multiply-add and exp. All of it works on fp32 scalars and
// vectors.
#pragma once

#include "codegen/conversion/Emit.h"
#include "codegen/conversion/Features.h"

namespace mlir::kvq {

class Numeric : public Emit {
public:
  Numeric(OpBuilder &builder, Location loc, CpuFeatures features)
      : Emit(builder, loc), features(features) {}

  CpuFeatures features;

  /// a * b + c, in decode only: whether it is fused depends on the target.
  Value multiplyAdd(Value a, Value b, Value c);
  /// How an element type is held in memory and registers: f16 and bf16 as i16, so that LLVM never
  /// looks for a library function to move one.
  Type storageOf(Type element);
  /// fp32 of what is stored as `element`; exact.
  Value widen(Value stored, Type element);
  /// fp32 to what is stored as `element`: nearest even, overflow to infinity, NaN to NaN.
  /// Subnormals are kept.
  Value narrow(Value value, Type element);
  /// The largest finite value of `element`.
  static double largest(Type element);
  /// fp32 clamped to the finite range of `element`, so that narrowing saturates.
  Value saturate(Value value, Type element);
  /// Nearest even of a value in [-2^22, 2^22], or floor(value + 0.5); the result is an i32.
  Value roundToInt(Value value, bool halfEven);
  /// exp(value) for value <= 0, relative error below 2e-7; exactly 0 below -87, NaN for NaN.
  Value expNonPositive(Value value);
  /// log(value) for a normal value > 0, error below 2e-7 of max(1, |log|); NaN for NaN.
  Value logPositive(Value value);
  /// True in lanes (of 16) below `valid` (i64).
  Value laneMask(Value valid);

private:
  Value widenHalf(Value bits);
  Value narrowHalf(Value bits);
  Type withElement(Value value, Type element);
};

} // namespace mlir::kvq

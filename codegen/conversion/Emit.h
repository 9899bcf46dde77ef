// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Short names for the upstream ops that skeletons and tile patterns are made of: 64-bit integers
// for addresses and counts, 1-D vectors, llvm loads and stores with an explicit alignment.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::kvq {

class Emit {
public:
  Emit(OpBuilder &builder, Location loc) : builder(builder), loc(loc) {}

  OpBuilder &builder;
  Location loc;

  // Types.
  Type i8() { return builder.getI8Type(); }
  Type i32() { return builder.getI32Type(); }
  Type i64() { return builder.getI64Type(); }
  Type f32() { return builder.getF32Type(); }
  Type pointer();
  VectorType vec(int64_t lanes, Type element) { return VectorType::get({lanes}, element); }
  VectorType vecF32(int64_t lanes) { return vec(lanes, f32()); }

  // Constants: scalars, and the same value in every lane when `like` is a vector.
  Value index(int64_t value);
  Value integer(Type like, int64_t value);
  Value real(Type like, double value);
  /// The f32 with exactly these bits, in every lane of `like`.
  Value realBits(Type like, uint32_t bits);
  Value iota(int64_t lanes);

  // Integer arithmetic; folds constants.
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value mul(Value a, int64_t b) { return mul(a, index(b)); }
  Value add(Value a, int64_t b) { return add(a, index(b)); }
  Value div(Value a, Value b);
  Value rem(Value a, Value b);
  Value div(Value a, int64_t b) { return div(a, index(b)); }
  Value rem(Value a, int64_t b) { return rem(a, index(b)); }
  Value min(Value a, Value b);
  Value bitAnd(Value a, Value b);
  Value bitOr(Value a, Value b);
  Value shl(Value a, int64_t bits);
  Value shr(Value a, int64_t bits);
  Value less(Value a, Value b);
  Value equal(Value a, Value b);

  // fp32 arithmetic, scalar or vector; never contracted.
  Value fadd(Value a, Value b);
  Value fsub(Value a, Value b);
  Value fmul(Value a, Value b);
  Value fdiv(Value a, Value b);
  Value fneg(Value a);
  Value fabs(Value a);
  /// a > b ? a : b and a < b ? a : b: a NaN in `a` gives b.
  Value fmax(Value a, Value b);
  Value fmin(Value a, Value b);
  Value fless(Value a, Value b);
  Value fgreater(Value a, Value b);
  Value fequal(Value a, Value b);
  /// True also when one of them is NaN.
  Value notLessEqual(Value a, Value b);
  Value notEqual(Value a, Value b);
  Value select(Value condition, Value a, Value b);
  Value bitcast(Value value, Type type);
  Value splat(Value scalar, int64_t lanes);

  // Vectors.
  Value shuffle(Value a, Value b, ArrayRef<int64_t> mask);
  Value shuffle(Value a, ArrayRef<int64_t> mask) { return shuffle(a, a, mask); }
  Value slice(Value vector, int64_t first, int64_t lanes);
  Value lane(Value vector, int64_t index);
  /// Combines all lanes (a power of two) in a fixed tree: halves first.
  Value reduce(Value vector, function_ref<Value(Value, Value)> combine);
  Value sum(Value vector);

  // Memory.
  Value offset(Value address, Value bytes);
  Value offset(Value address, int64_t bytes);
  Value load(Type type, Value address, int64_t alignment = 4);
  void store(Value value, Value address, int64_t alignment = 4);
  /// `lanes` floats that lie `stride` bytes apart.
  Value gather(Value address, int64_t stride, int64_t lanes);
  Value loadField(Value args, int64_t fieldOffset, Type type);
  /// Bytes on the stack of the enclosing function, aligned to 64, allocated once in its entry
  /// block.
  Value scratch(int64_t bytes);
  /// Writes zeros over `bytes` (a multiple of 64) bytes.
  void zero(Value address, int64_t bytes);

  // Control. Bodies get the builder placed inside.
  void loop(Value end, function_ref<void(Value)> body) { loop(index(0), end, 1, body); }
  void loop(int64_t end, function_ref<void(Value)> body);
  void loop(Value begin, Value end, int64_t step, function_ref<void(Value)> body);
  Value loopCarry(Value end, Value initial, function_ref<Value(Value, Value)> body);
  void when(Value condition, function_ref<void()> body);
};

} // namespace mlir::kvq

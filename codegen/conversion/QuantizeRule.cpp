// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/QuantizeRule.h"

namespace mlir::kvq {

QuantizeRule::QuantizeRule(Numeric &emit, TileQuantizeOp op, Value low, Value high)
    : emit(emit), side(op.getSide()), halfEven(op.getHalfEven()), exact(op.getExact()),
      top(static_cast<double>((1 << side.getBits()) - 1)), shift(side.getBits() == 8 ? 128 : 0) {
  if (side.getForm() == "min")
    minForm(low, high);
  else if (side.getForm() == "zero")
    zeroForm(low, high);
  else
    symForm(low, high);
}

Value QuantizeRule::stored(Value value) const {
  return emit.narrow(emit.fadd(emit.saturate(value, side.getParams()), real(0)), side.getParams());
}

Value QuantizeRule::source(Value fp32, Value stored) const {
  return exact ? emit.saturate(fp32, emit.f32()) : emit.widen(stored, side.getParams());
}

Value QuantizeRule::isZero(Value stored) const {
  return emit.fequal(emit.widen(stored, side.getParams()), real(0));
}

void QuantizeRule::minForm(Value low, Value high) {
  Value width = emit.fdiv(emit.fsub(high, low), real(top));
  storedScale = stored(width);
  constant = isZero(storedScale);
  scale = source(width, storedScale);
  Value zero = low;
  if (shift != 0)
    zero = emit.select(constant, low, emit.fadd(low, emit.fmul(real(shift), scale)));
  storedZero = stored(zero);
  offset = source(zero, storedZero);
}

void QuantizeRule::zeroForm(Value low, Value high) {
  Value width = emit.fdiv(emit.fmax(emit.fsub(high, low), real(1e-8f)), real(top));
  Value narrowed = stored(width);
  scale = source(width, narrowed);
  Value zero = emit.fdiv(emit.fneg(low), scale);
  if (shift != 0)
    zero = emit.fsub(zero, real(shift));
  Value narrowedZero = stored(zero);
  offset = source(zero, narrowedZero);
  Value largest = real(Numeric::largest(side.getParams()));
  constant = emit.bitOr(isZero(narrowed), emit.notLessEqual(emit.fabs(zero), largest));
  // A group that the form cannot hold becomes one value v: code 0, scale |v|, zero -sign(v).
  Value middle = emit.widen(stored(emit.fmul(emit.fadd(low, high), real(0.5))), side.getParams());
  Value sign = emit.select(emit.fgreater(middle, real(0)), real(-1),
                           emit.select(emit.fless(middle, real(0)), real(1), real(0)));
  storedScale = emit.select(constant, stored(emit.fabs(middle)), narrowed);
  storedZero = emit.select(constant, stored(sign), narrowedZero);
}

void QuantizeRule::symForm(Value low, Value high) {
  Value largest = emit.fmax(emit.fabs(low), emit.fabs(high));
  double middle = codeMiddle(side.getBits());
  Value width = emit.fdiv(largest, real(shift != 0 ? 127 : middle));
  storedScale = stored(width);
  scale = source(width, storedScale);
  offset = real(middle);
  constant = isZero(storedScale);
}

Value QuantizeRule::codesOf(Value x) const {
  Type type = x.getType();
  auto like = [&](Value scalar) {
    auto vector = dyn_cast<VectorType>(type);
    return vector ? emit.splat(scalar, vector.getNumElements()) : scalar;
  };
  bool symmetric = side.getForm() == "sym" && shift != 0;
  Value value = side.getForm() == "min" ? emit.fdiv(emit.fsub(x, like(offset)), like(scale))
                                        : emit.fadd(emit.fdiv(x, like(scale)), like(offset));
  // Bounding first keeps the conversion to integers defined, and clamps the code all the same.
  value = emit.fmax(value, emit.real(type, symmetric ? -127 : -shift));
  value = emit.fmin(value, emit.real(type, symmetric ? 127 : top - shift));
  Value codes = emit.roundToInt(value, halfEven);
  return emit.select(like(constant), emit.integer(codes.getType(), 0), codes);
}

} // namespace mlir::kvq

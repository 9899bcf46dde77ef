// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/Numeric.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir::kvq {

Type Numeric::withElement(Value value, Type element) {
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    return vector.clone(element);
  return element;
}

Value Numeric::multiplyAdd(Value a, Value b, Value c) {
  if (features.fma)
    return math::FmaOp::create(builder, loc, a, b, c);
  return fadd(fmul(a, b), c);
}

Type Numeric::storageOf(Type element) { return element.isF32() ? element : builder.getI16Type(); }

Value Numeric::widen(Value stored, Type element) {
  if (element.isF32())
    return stored;
  if (element.isF16() && features.f16c)
    return arith::ExtFOp::create(builder, loc, withElement(stored, f32()),
                                 bitcast(stored, withElement(stored, element)));
  Value wide = arith::ExtUIOp::create(builder, loc, withElement(stored, i32()), stored);
  if (element.isBF16())
    return bitcast(shl(wide, 16), withElement(stored, f32()));
  return widenHalf(wide);
}

/// Normal numbers move their exponent by 112, infinities and NaN by 224; a subnormal is its
/// mantissa times 2^-24.
Value Numeric::widenHalf(Value bits) {
  Type integerType = bits.getType();
  Type floatType = withElement(bits, f32());
  Value exponent = bitAnd(bits, integer(integerType, 0x7c00));
  Value sign = shl(bitAnd(bits, integer(integerType, 0x8000)), 16);
  Value magnitude = shl(bitAnd(bits, integer(integerType, 0x7fff)), 13);
  Value normal = add(magnitude, integer(integerType, 112 << 23));
  Value special = add(magnitude, integer(integerType, 224 << 23));
  Value mantissa = bitAnd(bits, integer(integerType, 0x3ff));
  Value subnormal = arith::UIToFPOp::create(builder, loc, floatType, mantissa);
  subnormal = bitcast(fmul(subnormal, real(floatType, 0x1p-24)), integerType);
  Value result = select(equal(exponent, integer(integerType, 0x7c00)), special, normal);
  result = select(equal(exponent, integer(integerType, 0)), subnormal, result);
  return bitcast(bitOr(result, sign), floatType);
}

Value Numeric::narrow(Value value, Type element) {
  if (element.isF32())
    return value;
  Type storage = withElement(value, storageOf(element));
  if (element.isF16() && features.f16c)
    return bitcast(arith::TruncFOp::create(builder, loc, withElement(value, element), value),
                   storage);
  Type wideType = withElement(value, i32());
  Value bits = bitcast(value, wideType);
  Value narrowBits;
  if (element.isBF16()) {
    Value tie = bitAnd(shr(bits, 16), integer(wideType, 1));
    Value rounded = shr(add(add(bits, integer(wideType, 0x7fff)), tie), 16);
    Value quiet = bitOr(shr(bits, 16), integer(wideType, 0x40));
    Value nan = less(integer(wideType, 0x7f800000), bitAnd(bits, integer(wideType, 0x7fffffff)));
    narrowBits = select(nan, quiet, rounded);
  } else {
    narrowBits = narrowHalf(bits);
  }
  return arith::TruncIOp::create(builder, loc, storage, narrowBits);
}

/// Normal results round by adding half a unit; adding 0.5 lets the hardware round subnormal results
/// at 2^-24.
Value Numeric::narrowHalf(Value bits) {
  Type type = bits.getType();
  Type floatType = withElement(bits, f32());
  Value sign = bitAnd(shr(bits, 16), integer(type, 0x8000));
  Value magnitude = bitAnd(bits, integer(type, 0x7fffffff));
  Value tie = bitAnd(shr(magnitude, 13), integer(type, 1));
  Value normal = shr(add(add(magnitude, integer(type, 0xfff - (112 << 23))), tie), 13);
  Value shifted = fadd(bitcast(magnitude, floatType), real(floatType, 0.5));
  Value subnormal = sub(bitcast(shifted, type), integer(type, 0x3f000000));
  Value result = select(less(magnitude, integer(type, 113 << 23)), subnormal, normal);
  result = select(less(magnitude, integer(type, 0x47800000)), result, integer(type, 0x7c00));
  result = select(less(integer(type, 0x7f800000), magnitude), integer(type, 0x7e00), result);
  return bitOr(result, sign);
}

double Numeric::largest(Type element) {
  return llvm::APFloat::getLargest(cast<FloatType>(element).getFloatSemantics()).convertToDouble();
}

Value Numeric::saturate(Value value, Type element) {
  Value limit = real(value.getType(), largest(element));
  return fmax(fmin(value, limit), fneg(limit));
}

Value Numeric::roundToInt(Value value, bool halfEven) {
  Type integerType = withElement(value, i32());
  if (halfEven) {
    // Adding 1.5 * 2^23 leaves no bit below the unit, so the addition itself rounds to nearest
    // even.
    Value magic = real(value.getType(), 12582912.0);
    value = fsub(fadd(value, magic), magic);
    return arith::FPToSIOp::create(builder, loc, integerType, value);
  }
  Value shifted = fadd(value, real(value.getType(), 0.5));
  Value truncated = arith::FPToSIOp::create(builder, loc, integerType, shifted);
  Value back = arith::SIToFPOp::create(builder, loc, value.getType(), truncated);
  Value below = sub(truncated, integer(integerType, 1));
  return select(fgreater(back, shifted), below, truncated);
}

Value Numeric::expNonPositive(Value value) {
  // value = n ln 2 + r with |r| <= ln 2 / 2. ln 2 in two parts: n * 0.693359375 is exact for |n| <
  // 2^8. The polynomial is the Taylor series to the seventh power, whose remainder is below 2^-27
  // here.
  Type type = value.getType();
  Type integerType = withElement(value, i32());
  Value bounded = fmax(value, real(type, -87.0));
  Value n = roundToInt(fmul(bounded, real(type, 1.4426950408889634)), /*halfEven=*/true);
  Value nf = arith::SIToFPOp::create(builder, loc, type, n);
  Value r = multiplyAdd(nf, real(type, -0.693359375), bounded);
  r = multiplyAdd(nf, real(type, 2.12194440054690583e-4), r);
  static constexpr double coefficients[] = {1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
  Value p = real(type, 1.0 / 5040);
  for (double coefficient : coefficients)
    p = multiplyAdd(p, r, real(type, coefficient));
  Value scale = bitcast(shl(add(n, integer(integerType, 127)), 23), type);
  Value result = select(fless(value, real(type, -87.0)), real(type, 0), fmul(p, scale));
  return select(notEqual(value, value), value, result);
}

Value Numeric::logPositive(Value value) {
  // value = 2^e m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <
  // 0.172: the series to s^9 leaves 2^-28.
  Type type = value.getType();
  Value bits = bitcast(value, withElement(value, i32()));
  Type integerType = bits.getType();
  Value shifted = sub(bits, integer(integerType, 0x3f3504f3));
  Value exponent = arith::ShRSIOp::create(builder, loc, shifted, integer(integerType, 23));
  Value mantissa = bitcast(sub(bits, shl(exponent, 23)), type);
  Value e = arith::SIToFPOp::create(builder, loc, type, exponent);
  Value one = real(type, 1);
  Value s = fdiv(fsub(mantissa, one), fadd(mantissa, one));
  Value square = fmul(s, s);
  Value p = real(type, 1.0 / 9);
  for (double coefficient : {1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0})
    p = multiplyAdd(p, square, real(type, coefficient));
  Value result = multiplyAdd(e, real(type, 0.6931471805599453), fmul(fmul(p, s), real(type, 2)));
  return select(notEqual(value, value), value, result);
}

Value Numeric::laneMask(Value valid) {
  Value narrow = arith::TruncIOp::create(builder, loc, i32(), valid);
  return less(iota(16), splat(narrow, 16));
}

} // namespace mlir::kvq

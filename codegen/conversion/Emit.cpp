// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/Emit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::kvq {

namespace {

template <typename Op, typename... Args> Value fold(Emit &emit, Args... args) {
  return emit.builder.createOrFold<Op>(emit.loc, args...);
}

Value constant(Emit &emit, Type like, TypedAttr scalar) {
  if (auto vector = dyn_cast<VectorType>(like))
    scalar = DenseElementsAttr::get(vector, Attribute(scalar));
  return arith::ConstantOp::create(emit.builder, emit.loc, like, scalar);
}

Value compare(Emit &emit, arith::CmpFPredicate predicate, Value a, Value b) {
  return arith::CmpFOp::create(emit.builder, emit.loc, predicate, a, b);
}

} // namespace

Type Emit::pointer() { return LLVM::LLVMPointerType::get(builder.getContext()); }

Value Emit::index(int64_t value) { return integer(i64(), value); }

Value Emit::integer(Type like, int64_t value) {
  return constant(*this, like, builder.getIntegerAttr(getElementTypeOrSelf(like), value));
}

Value Emit::real(Type like, double value) {
  return constant(*this, like, builder.getF32FloatAttr(value));
}

Value Emit::realBits(Type like, uint32_t bits) {
  llvm::APFloat value(llvm::APFloat::IEEEsingle(), llvm::APInt(32, bits));
  return constant(*this, like, FloatAttr::get(f32(), value));
}

Value Emit::iota(int64_t lanes) {
  SmallVector<int32_t> values;
  for (int64_t i = 0; i < lanes; ++i)
    values.push_back(static_cast<int32_t>(i));
  VectorType type = vec(lanes, i32());
  return arith::ConstantOp::create(builder, loc, type,
                                   DenseElementsAttr::get(type, ArrayRef<int32_t>(values)));
}

Value Emit::add(Value a, Value b) { return fold<arith::AddIOp>(*this, a, b); }
Value Emit::sub(Value a, Value b) { return fold<arith::SubIOp>(*this, a, b); }
Value Emit::mul(Value a, Value b) { return fold<arith::MulIOp>(*this, a, b); }
Value Emit::div(Value a, Value b) { return fold<arith::DivUIOp>(*this, a, b); }
Value Emit::rem(Value a, Value b) { return fold<arith::RemUIOp>(*this, a, b); }
Value Emit::min(Value a, Value b) { return fold<arith::MinSIOp>(*this, a, b); }
Value Emit::bitAnd(Value a, Value b) { return fold<arith::AndIOp>(*this, a, b); }
Value Emit::bitOr(Value a, Value b) { return fold<arith::OrIOp>(*this, a, b); }

Value Emit::shl(Value a, int64_t bits) {
  return fold<arith::ShLIOp>(*this, a, integer(a.getType(), bits));
}
Value Emit::shr(Value a, int64_t bits) {
  return fold<arith::ShRUIOp>(*this, a, integer(a.getType(), bits));
}

Value Emit::less(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, a, b);
}
Value Emit::equal(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b);
}

Value Emit::fadd(Value a, Value b) { return arith::AddFOp::create(builder, loc, a, b); }
Value Emit::fsub(Value a, Value b) { return arith::SubFOp::create(builder, loc, a, b); }
Value Emit::fmul(Value a, Value b) { return arith::MulFOp::create(builder, loc, a, b); }
Value Emit::fdiv(Value a, Value b) { return arith::DivFOp::create(builder, loc, a, b); }
Value Emit::fneg(Value a) { return arith::NegFOp::create(builder, loc, a); }
Value Emit::fabs(Value a) { return math::AbsFOp::create(builder, loc, a); }
Value Emit::fless(Value a, Value b) { return compare(*this, arith::CmpFPredicate::OLT, a, b); }
Value Emit::fgreater(Value a, Value b) { return compare(*this, arith::CmpFPredicate::OGT, a, b); }
Value Emit::fequal(Value a, Value b) { return compare(*this, arith::CmpFPredicate::OEQ, a, b); }
Value Emit::notLessEqual(Value a, Value b) {
  return compare(*this, arith::CmpFPredicate::UGT, a, b);
}
Value Emit::notEqual(Value a, Value b) { return compare(*this, arith::CmpFPredicate::UNE, a, b); }
Value Emit::fmax(Value a, Value b) { return select(fgreater(a, b), a, b); }
Value Emit::fmin(Value a, Value b) { return select(fless(a, b), a, b); }

Value Emit::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, condition, a, b);
}

Value Emit::bitcast(Value value, Type type) {
  return arith::BitcastOp::create(builder, loc, type, value);
}

Value Emit::splat(Value scalar, int64_t lanes) {
  return vector::BroadcastOp::create(builder, loc, vec(lanes, scalar.getType()), scalar);
}

Value Emit::shuffle(Value a, Value b, ArrayRef<int64_t> mask) {
  return vector::ShuffleOp::create(builder, loc, a, b, mask);
}

Value Emit::slice(Value vector, int64_t first, int64_t lanes) {
  if (cast<VectorType>(vector.getType()).getNumElements() == lanes)
    return vector;
  return vector::ExtractStridedSliceOp::create(builder, loc, vector, first, lanes, int64_t(1));
}

Value Emit::lane(Value vector, int64_t index) {
  return vector::ExtractOp::create(builder, loc, vector, index);
}

Value Emit::reduce(Value vector, function_ref<Value(Value, Value)> combine) {
  for (int64_t lanes = cast<VectorType>(vector.getType()).getNumElements() / 2; lanes; lanes /= 2)
    vector = combine(slice(vector, 0, lanes), slice(vector, lanes, lanes));
  return lane(vector, 0);
}

Value Emit::sum(Value vector) {
  return reduce(vector, [&](Value a, Value b) { return fadd(a, b); });
}

Value Emit::offset(Value address, Value bytes) {
  return LLVM::GEPOp::create(builder, loc, pointer(), i8(), address, ArrayRef<LLVM::GEPArg>{bytes});
}

Value Emit::offset(Value address, int64_t bytes) {
  if (bytes == 0)
    return address;
  if (!llvm::isInt<32>(bytes))
    return offset(address, index(bytes));
  return LLVM::GEPOp::create(builder, loc, pointer(), i8(), address,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(bytes)});
}

Value Emit::load(Type type, Value address, int64_t alignment) {
  return LLVM::LoadOp::create(builder, loc, type, address, alignment);
}

void Emit::store(Value value, Value address, int64_t alignment) {
  LLVM::StoreOp::create(builder, loc, value, address, alignment);
}

Value Emit::gather(Value address, int64_t stride, int64_t lanes) {
  SmallVector<Value> elements;
  for (int64_t i = 0; i < lanes; ++i)
    elements.push_back(load(f32(), offset(address, i * stride)));
  return vector::FromElementsOp::create(builder, loc, vecF32(lanes), elements);
}

Value Emit::loadField(Value args, int64_t fieldOffset, Type type) {
  return load(type, offset(args, fieldOffset), type.isInteger(32) || type.isF32() ? 4 : 8);
}

Value Emit::scratch(int64_t bytes) {
  auto function = dyn_cast<FunctionOpInterface>(builder.getInsertionBlock()->getParentOp());
  if (!function)
    function = builder.getInsertionBlock()->getParentOp()->getParentOfType<FunctionOpInterface>();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&function.getFunctionBody().front());
  return LLVM::AllocaOp::create(builder, loc, pointer(), i8(), index(bytes), 64);
}

void Emit::zero(Value address, int64_t bytes) {
  loop(index(0), index(bytes), 4 * 16,
       [&](Value at) { store(real(vecF32(16), 0), offset(address, at), 64); });
}

void Emit::loop(int64_t end, function_ref<void(Value)> body) {
  if (end == 1)
    return body(index(0));
  loop(index(0), index(end), 1, body);
}

void Emit::loop(Value begin, Value end, int64_t step, function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(builder, loc, begin, end, index(step));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

Value Emit::loopCarry(Value end, Value initial, function_ref<Value(Value, Value)> body) {
  auto loop = scf::ForOp::create(builder, loc, index(0), end, index(1), ValueRange{initial});
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value next = body(loop.getInductionVar(), loop.getRegionIterArg(0));
  scf::YieldOp::create(builder, loc, ValueRange{next});
  return loop.getResult(0);
}

void Emit::when(Value condition, function_ref<void()> body) {
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&branch.getThenRegion().front());
  body();
}

} // namespace mlir::kvq

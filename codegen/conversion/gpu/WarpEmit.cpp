// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/gpu/WarpEmit.h"

#include "codegen/conversion/gpu/WindowMap.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::kvq {
namespace {

constexpr char kSharedName[] = "kvq_shared";

Value inlineAsm(Emit &emit, Type result, StringRef text, StringRef constraints, ValueRange operands,
                bool effects) {
  auto dialect = LLVM::AsmDialectAttr::get(emit.builder.getContext(), LLVM::AsmDialect::AD_ATT);
  auto op =
      LLVM::InlineAsmOp::create(emit.builder, emit.loc, result ? TypeRange(result) : TypeRange(),
                                operands, text, constraints, effects,
                                /*is_align_stack=*/false, LLVM::TailCallKind::None, dialect,
                                /*operand_attrs=*/ArrayAttr());
  return result ? op->getResult(0) : Value();
}

} // namespace

Variable::Variable(Emit &emit, Value initial)
    : emit(&emit), type(initial.getType()), address(emit.scratch(8)) {
  set(initial);
}

Value Variable::get() const { return emit->load(type, address, 8); }
void Variable::set(Value value) const { emit->store(value, address, 8); }

Value WarpEmit::pureAsm(Type result, StringRef text, StringRef constraints, ValueRange operands) {
  return inlineAsm(*this, result, text, constraints, operands, /*effects=*/false);
}

Value WarpEmit::effectAsm(Type result, StringRef text, StringRef constraints, ValueRange operands) {
  return inlineAsm(*this, result, text, constraints, operands, /*effects=*/true);
}

Value WarpEmit::intrinsic(Type result, StringRef name, ValueRange operands) {
  StringAttr attr = builder.getStringAttr("llvm.nvvm." + name.str());
  if (!result) {
    LLVM::CallIntrinsicOp::create(builder, loc, attr, operands);
    return {};
  }
  return LLVM::CallIntrinsicOp::create(builder, loc, result, attr, operands)->getResult(0);
}

Value WarpEmit::special(StringRef name) {
  return intrinsic(i32(), "read.ptx.sreg." + name.str(), {});
}

Value WarpEmit::narrowWord(Value value) {
  return builder.createOrFold<arith::TruncIOp>(loc, i32(), value);
}
Value WarpEmit::wide(Value value) {
  return builder.createOrFold<arith::ExtSIOp>(loc, i64(), value);
}

Value WarpEmit::shuffleXor(Value value, int mask) {
  StringRef name = value.getType().isF32() ? "shfl.sync.bfly.f32" : "shfl.sync.bfly.i32";
  return intrinsic(value.getType(), name, {word(-1), value, word(mask), word(31)});
}

Value WarpEmit::shuffleUp(Value value, int delta) {
  return intrinsic(value.getType(), "shfl.sync.up.i32", {word(-1), value, word(delta), word(0)});
}

Value WarpEmit::broadcast(Value value, Value lane) {
  StringRef name = value.getType().isF32() ? "shfl.sync.idx.f32" : "shfl.sync.idx.i32";
  return intrinsic(value.getType(), name, {word(-1), value, lane, word(31)});
}

Value WarpEmit::butterfly(Value value, int lanes, function_ref<Value(Value, Value)> combine) {
  for (int bit = 1; bit < 32; bit *= 2)
    if (lanes & bit)
      value = combine(value, shuffleXor(value, bit));
  return value;
}

Value WarpEmit::any(Value condition) {
  return intrinsic(builder.getI1Type(), "vote.any.sync", {word(-1), condition});
}

Value WarpEmit::ballot(Value condition) {
  return intrinsic(i32(), "vote.ballot.sync", {word(-1), condition});
}

Value WarpEmit::sumWords(Value value) {
  return intrinsic(i32(), "redux.sync.add", {value, word(-1)});
}
Value WarpEmit::maxUnsigned(Value value) {
  return intrinsic(i32(), "redux.sync.umax", {value, word(-1)});
}

void WarpEmit::syncWarp() { intrinsic({}, "bar.warp.sync", {word(-1)}); }

Value WarpEmit::toReal(Value word) { return arith::SIToFPOp::create(builder, loc, f32(), word); }
Value WarpEmit::maxNumber(Value a, Value b) { return arith::MaxNumFOp::create(builder, loc, a, b); }

Value WarpEmit::exp2(Value value) {
  return pureAsm(f32(), "ex2.approx.ftz.f32 $0, $1;", "=f,f", {value});
}
Value WarpEmit::log2(Value value) {
  return pureAsm(f32(), "lg2.approx.ftz.f32 $0, $1;", "=f,f", {value});
}

Value WarpEmit::permute(Value low, Value high, int selector) {
  return pureAsm(i32(), "prmt.b32 $0, $1, $2, $3;", "=r,r,r,n", {low, high, word(selector)});
}

/// `and` alone would do, but LLVM moves masks through shifts and merges them.
Value WarpEmit::mask(Value value, uint32_t bits) {
  return pureAsm(i32(), "and.b32 $0, $1, $2;", "=r,r,n", {value, word(static_cast<int32_t>(bits))});
}

Value WarpEmit::transpose(Value value) {
  return effectAsm(i32(), "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r", {value});
}

/// One mma.sync of `shape`, with sums of type `sum`.
void WarpEmit::multiplyWords(StringRef shape, Type sum, std::array<Value, 4> &sums,
                             const std::array<Value, 4> &a, Value b0, Value b1) {
  std::string text = "mma.sync.aligned." + shape.str() +
                     " {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$0, $1, $2, $3};";
  StringRef results = sum.isF32() ? "=f,=f,=f,=f" : "=r,=r,=r,=r";
  Type quad = LLVM::LLVMStructType::getLiteral(builder.getContext(), {sum, sum, sum, sum});
  Value result = effectAsm(quad, text, (results + ",r,r,r,r,r,r,0,1,2,3").str(),
                           {a[0], a[1], a[2], a[3], b0, b1, sums[0], sums[1], sums[2], sums[3]});
  for (int64_t i = 0; i < 4; ++i)
    sums[i] = LLVM::ExtractValueOp::create(builder, loc, result, i);
}

void WarpEmit::multiply(std::array<Value, 4> &sums, const std::array<Value, 4> &a, Value b0,
                        Value b1, bool aSigned, bool bSigned) {
  std::string shape = std::string("m16n8k32.row.col.s32.") + (aSigned ? "s8." : "u8.") +
                      (bSigned ? "s8" : "u8") + ".s32";
  multiplyWords(shape, i32(), sums, a, b0, b1);
}

void WarpEmit::multiplyPairs(std::array<Value, 4> &sums, const std::array<Value, 4> &a, Value b0,
                             Value b1, Type element) {
  StringRef shape =
      element.isF16() ? "m16n8k16.row.col.f32.f16.f16.f32" : "m16n8k16.row.col.f32.bf16.bf16.f32";
  multiplyWords(shape, f32(), sums, a, b0, b1);
}

Value WarpEmit::pairOfBytes(Value bytes, int half, Type element) {
  auto constant = [&](uint32_t value) { return word(static_cast<int32_t>(value)); };
  int selector = window::kByteSelector[half];
  if (element.isF16()) {
    using Bytes = window::HalfBytes;
    Value flipped = arith::XOrIOp::create(builder, loc, bytes, constant(Bytes::flip));
    Value numbers = permute(flipped, constant(Bytes::filler), selector);
    return pureAsm(i32(), "add.rn.f16x2 $0, $1, $2;", "=r,r,r", {numbers, constant(Bytes::addend)});
  }
  using Bytes = window::BrainBytes;
  Value pair = permute(bytes, word(0), selector);
  Value numbers = bitOr(bitAnd(pair, constant(Bytes::bits)), constant(Bytes::base));
  Value taken = bitOr(bitAnd(pair, constant(Bytes::sign)), constant(Bytes::addend));
  return pureAsm(i32(), "fma.rn.bf16x2 $0, $1, $2, $3;", "=r,r,r,r",
                 {numbers, constant(Bytes::one), taken});
}

Value WarpEmit::pairOf(Value low, Value high, Type element) {
  StringRef text =
      element.isF16() ? "cvt.rn.f16x2.f32 $0, $1, $2;" : "cvt.rn.bf16x2.f32 $0, $1, $2;";
  return pureAsm(i32(), text, "=r,f,f", {high, low});
}

Value WarpEmit::lowOf(Value pair, Type element) {
  return widen(arith::TruncIOp::create(builder, loc, builder.getI16Type(), pair), element);
}

Value WarpEmit::shared() {
  Operation *function = builder.getInsertionBlock()->getParentOp();
  while (!isa<LLVM::LLVMFuncOp>(function))
    function = function->getParentOp();
  auto module = function->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(kSharedName)) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(builder, loc, LLVM::LLVMArrayType::get(i8(), 0), /*isConstant=*/false,
                           LLVM::Linkage::External, kSharedName, Attribute(), /*alignment=*/128,
                           /*addrSpace=*/3);
  }
  Type local = LLVM::LLVMPointerType::get(builder.getContext(), 3);
  Value address = LLVM::AddressOfOp::create(builder, loc, local, kSharedName);
  return LLVM::AddrSpaceCastOp::create(builder, loc, pointer(), address);
}

Value WarpEmit::sharedWord(Value address) {
  Type local = LLVM::LLVMPointerType::get(builder.getContext(), 3);
  Value cast = LLVM::AddrSpaceCastOp::create(builder, loc, local, address);
  return narrowWord(LLVM::PtrToIntOp::create(builder, loc, i64(), cast));
}

Value WarpEmit::registers(int64_t words) { return scratch(4 * words); }

Value WarpEmit::atomicAdd(Value address, Value value) {
  return effectAsm(i32(), "atom.acq_rel.gpu.global.add.u32 $0, [$1], $2;", "=r,l,r,~{memory}",
                   {address, value});
}
void WarpEmit::fenceDevice() { effectAsm({}, "fence.acq_rel.gpu;", "~{memory}", {}); }

void WarpEmit::waitForPreviousKernel() {
  if (chip.programmaticLaunch)
    effectAsm({}, "griddepcontrol.wait;", "~{memory}", {});
}
void WarpEmit::releaseNextKernel() {
  if (chip.programmaticLaunch)
    effectAsm({}, "griddepcontrol.launch_dependents;", "~{memory}", {});
}
void WarpEmit::syncBlock() { intrinsic({}, "barrier.cta.sync.aligned.all", {word(0)}); }
void WarpEmit::syncTeam(Value barrier, Value threads) {
  effectAsm({}, "bar.sync $0, $1;", "r,r,~{memory}", {barrier, threads});
}

void WarpEmit::initBarrier(Value barrier) {
  effectAsm({}, "mbarrier.init.shared::cta.b64 [$0], 1;", "r,~{memory}", {barrier});
}
void WarpEmit::fenceBarrierInit() {
  effectAsm({}, "fence.mbarrier_init.release.cluster;", "~{memory}", {});
}
void WarpEmit::expectBytes(Value barrier, Value bytes) {
  effectAsm({}, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}",
            {barrier, bytes});
}
void WarpEmit::bulkCopy(Value target, Value source, Value bytes, Value barrier) {
  effectAsm({},
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, "
            "[$3];",
            "r,l,r,r,~{memory}", {target, source, bytes, barrier});
}
void WarpEmit::waitBarrier(Value barrier, Value parity) {
  effectAsm({},
            "{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; "
            "@p bra DONE; bra WAIT; DONE: }",
            "r,r,~{memory}", {barrier, parity});
}
void WarpEmit::copy16(Value target, Value source) {
  effectAsm({}, "cp.async.cg.shared.global [$0], [$1], 16;", "r,l,~{memory}", {target, source});
}
void WarpEmit::commitCopies() { effectAsm({}, "cp.async.commit_group;", "~{memory}", {}); }
void WarpEmit::waitCopies(int pending) {
  effectAsm({}, "cp.async.wait_group " + std::to_string(pending) + ";", "~{memory}", {});
}

Value WarpEmit::unlikely(Value condition) {
  Value no =
      LLVM::ConstantOp::create(builder, loc, builder.getI1Type(), builder.getBoolAttr(false));
  return LLVM::ExpectOp::create(builder, loc, condition, no);
}

void WarpEmit::whenElse(Value condition, function_ref<void()> then,
                        function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&branch.getThenRegion().front());
  then();
  builder.setInsertionPointToStart(&branch.getElseRegion().front());
  otherwise();
}

void WarpEmit::whileTrue(function_ref<Value()> condition, function_ref<void()> body) {
  auto loop = scf::WhileOp::create(builder, loc, TypeRange(), ValueRange());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&loop.getBefore());
  scf::ConditionOp::create(builder, loc, condition(), ValueRange());
  builder.createBlock(&loop.getAfter());
  body();
  scf::YieldOp::create(builder, loc);
}

} // namespace mlir::kvq

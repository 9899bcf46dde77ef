// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/KernelBuilder.h"

#include "codegen/conversion/Refusal.h"
#include "codegen/conversion/TileMap.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"

#include <algorithm>

namespace mlir::kvq {
namespace {

using Role = ::kvq::KernelRole;

Type elementType(MLIRContext *context, ::kvq::ElementType type) {
  switch (type) {
  case ::kvq::ElementType::f16:
    return Float16Type::get(context);
  case ::kvq::ElementType::bf16:
    return BFloat16Type::get(context);
  case ::kvq::ElementType::f32:
    return Float32Type::get(context);
  }
  llvm_unreachable("element type out of range");
}

TileSideAttr sideOf(MLIRContext *context, const ::kvq::RecordSide &side) {
  return TileSideAttr::get(context, side.dim, side.bits, side.group ? side.group : side.dim,
                           ::kvq::formName(side.form), elementType(context, side.element));
}

/// Of the kernels of a method: the query heads of a KV head, as far as one block holds them.
int64_t cpuRowClassOf(const ::kvq::CacheMethod &method) {
  return std::min(method.q_heads / method.kv_heads, kMaxRowClass);
}

using KernelBody = void (KernelBuilder::*)();

KernelBody bodyOf(Role role) {
  switch (role) {
  case Role::append:
    return &KernelBuilder::append;
  case Role::prepare:
    return &KernelBuilder::prepare;
  case Role::decode:
    return &KernelBuilder::decode;
  case Role::merge:
    return &KernelBuilder::merge;
  case Role::dequantize:
    return &KernelBuilder::dequantize;
  case Role::append_window:
    return &KernelBuilder::appendWindow;
  case Role::demote:
    return &KernelBuilder::demote;
  case Role::plan:
  case Role::commit:
    break;
  }
  llvm_unreachable("not a role of the CPU");
}

void buildKernel(ModuleOp module, Location loc, Role role, const ::kvq::CacheMethod &method) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Type pointer = LLVM::LLVMPointerType::get(module.getContext());
  auto type = builder.getFunctionType({pointer, builder.getI64Type()}, {});
  auto function = func::FuncOp::create(builder, loc, kernelSymbol(role), type);
  builder.setInsertionPointToStart(function.addEntryBlock());
  Emit emit(builder, loc);
  (KernelBuilder(emit, method, function.getArgument(0), function.getArgument(1),
                 cpuRowClassOf(method)).*
   bodyOf(role))();
  func::ReturnOp::create(builder, loc);
}

} // namespace

TileRecordAttr recordOf(MLIRContext *context, const ::kvq::CacheMethod &method) {
  return TileRecordAttr::get(context, sideOf(context, method.key.record),
                             sideOf(context, method.value.record));
}

Workspace workspaceOf(const ::kvq::CacheMethod &method) {
  const ::kvq::RecordSide &key = method.key.record;
  return {cpuRowClassOf(method), key.dim, key.group ? key.dim / key.group : 1,
          method.value.record.dim};
}

std::string kernelSymbol(Role role) { return std::string("kvq_") + ::kvq::roleName(role); }

std::vector<Role> cpuKernelsOf(const ::kvq::CacheMethod &method) {
  std::vector<Role> roles = {Role::append, Role::prepare, Role::decode, Role::merge,
                             Role::dequantize};
  if (method.windowed())
    roles.insert(roles.end(), {Role::append_window, Role::demote});
  return roles;
}

std::string unsupportedOnCpu(const ::kvq::CacheMethod &method) {
  const Refusal refuse("cpu", ::kvq::kMaxHeadDim);
  if (std::string reason = refuse.ofMethod(method); !reason.empty())
    return reason;
  if (method.page <= 0 || method.page % kTileTokens)
    return refuse("a page that is a multiple of 16 tokens", std::to_string(method.page));
  if (std::string rule = ::kvq::verifyRecord(method.record()); !rule.empty())
    return rule;
  TileMap map;
  return TileMap::build(method.record(), map);
}

LogicalResult buildKernels(ModuleOp module, Location loc, const ::kvq::CacheMethod &method) {
  if (std::string reason = unsupportedOnCpu(method); !reason.empty())
    return emitError(loc) << reason;
  for (Role role : cpuKernelsOf(method))
    buildKernel(module, loc, role, method);
  return success();
}

Type KernelBuilder::element(::kvq::ElementType type) {
  return elementType(emit.builder.getContext(), type);
}

Value KernelBuilder::constant(int index, Value constants, Value layer, Value head) {
  const ::kvq::Constant &entry = method.constants[index];
  int64_t elements = 1;
  for (size_t axis = 2; axis < entry.shape.size(); ++axis)
    elements *= entry.shape[axis];
  Value row = emit.add(emit.mul(layer, entry.shape[1]), head);
  return emit.offset(emit.offset(constants, entry.offset), emit.mul(row, 4 * elements));
}

Value KernelBuilder::applyRotation(Value row, const ::kvq::RotationFactor &factor, bool inverse,
                                   bool anyOrder) {
  Type type = row.getType();
  if (factor.kind != ::kvq::RotationFactor::Kind::dense) {
    int64_t order = factor.kind == ::kvq::RotationFactor::Kind::hadamard
                        ? cast<TileRowType>(type).getDim()
                        : factor.order;
    return TileHadamardOp::create(emit.builder, emit.loc, type, row, order);
  }
  Value matrix = constant(factor.constant, constants, layer, constantHead);
  return TileRotateOp::create(emit.builder, emit.loc, type, row, matrix, factor.inverse != inverse,
                              anyOrder);
}

Value KernelBuilder::rotate(Value row, const ::kvq::Step &step, bool inverse, bool anyOrder) {
  if (!inverse) {
    for (const ::kvq::RotationFactor &factor : step.factors)
      row = applyRotation(row, factor, /*inverse=*/false, anyOrder);
    return row;
  }
  for (auto factor = step.factors.rbegin(); factor != step.factors.rend(); ++factor)
    row = applyRotation(row, *factor, /*inverse=*/true, anyOrder);
  return row;
}

Value KernelBuilder::loadRow(Value address, ::kvq::ElementType type, int64_t dim) {
  return TileLoadRowOp::create(emit.builder, emit.loc, row(dim), address, element(type));
}

} // namespace mlir::kvq

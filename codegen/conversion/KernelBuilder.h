// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the skeleton builders share.
#pragma once

#include "codegen/conversion/BuildKernels.h"
#include "codegen/conversion/Emit.h"
#include "dialect/KVQTile.h"

namespace mlir::kvq {

/// The record attribute of a method.
TileRecordAttr recordOf(MLIRContext *context, const ::kvq::CacheMethod &method);

/// The method, and an emitter placed in the kernel's body.
class KernelBuilder {
public:
  KernelBuilder(Emit &emit, const ::kvq::CacheMethod &method, Value args, Value item)
      : emit(emit), method(method), args(args), item(item),
        record(recordOf(emit.builder.getContext(), method)),
        queries(method.q_heads / method.kv_heads) {}

  void append();
  void prepare();
  void decode();
  void merge();

protected:
  Type element(::kvq::ElementType type);
  Type fragment(FragmentKind kind) { return FragmentType::get(emit.builder.getContext(), kind); }
  Type row(int64_t dim) { return TileRowType::get(emit.builder.getContext(), dim); }
  Value argument(size_t offset) {
    return emit.loadField(args, static_cast<int64_t>(offset), emit.i64());
  }
  Value pointerArgument(size_t offset) {
    return emit.loadField(args, static_cast<int64_t>(offset), emit.pointer());
  }

  /// The part of constant `index` that belongs to this layer and head.
  Value constant(int index, Value constants, Value layer, Value head);
  Value applyRotation(Value row, const ::kvq::RotationFactor &factor, bool inverse, bool anyOrder);
  /// Applies a rotation step, or undoes it.
  Value rotate(Value row, const ::kvq::Step &step, bool inverse, bool anyOrder);
  Value loadRow(Value address, ::kvq::ElementType type, int64_t dim);

  void appendSide(bool key, Value address, Value tile, Value token);
  Value clip(Value row, const ::kvq::SideMethod &side, const ::kvq::Step &step);
  Value keyShift(Value &query);
  /// Sets what `constant` is asked for by rotations and means: those of this layer and KV head.
  void loadConstantPlace(Value head);
  void prepareQuery(Value seq, Value head, Value q, Value workspace);
  Value tileAddress(Value seq, Value head, Value token);
  Value finishOutput(Value row, Value mass);
  /// Without `workspace` the log-sum-exp is written as it is.
  void storeOutput(Value seq, Value head, Value q, Value workspace, Value row, Value lse);
  Value splitCount(Value seq);

  Emit &emit;
  const ::kvq::CacheMethod &method;
  Value args, item;
  TileRecordAttr record;
  int64_t queries;
  Value constants, layer, constantHead;
};

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From IR to plain data: what the code generator, the library file and the oracle take.
#pragma once

#include "dialect/KVQ.h"
#include "runtime/format/method.h"

#include <vector>

namespace mlir::kvq {

/// The constants that pipelines use, in order of first use.
class ConstantTable {
public:
  /// Index of the constant that `ref` names as seen from `from`, entered on first use. The
  /// reference must resolve (the verifiers of the stages see to it).
  int indexOf(Operation *from, SymbolRefAttr ref);

  const std::vector<::kvq::Constant> &constants() const { return list; }
  ArrayRef<ConstantOp> ops() const { return operations; }

private:
  std::vector<::kvq::Constant> list;
  SmallVector<ConstantOp> operations;
};

/// One side of a cache as plain data; constants are entered in `table`.
::kvq::SideMethod readSide(PipelineOp pipeline, ConstantTable &table);

/// Whether the result of `attention` is in the model's basis, or a rotation leads it back there; if
/// not, the output projection must hold the inverse.
bool rotatesOutputBack(FusedAttentionOp attention);

/// The method of `cache` as `attention` reads it. Constants get their shape, [layers, kv_heads,
/// ...] or [layers, q_heads, 1] of learned sinks, and the offset that `packConstants` writes them
/// to. Fails with a diagnostic on an attention with more query tokens than a call may have.
FailureOr<::kvq::CacheMethod> readMethod(CacheOp cache, FusedAttentionOp attention);

/// Writes the values of the constants of `method` into `blob`, f32 little-endian, each at a
/// multiple of 64 bytes; an extent of 1 is repeated over layers or heads. Fails with a diagnostic
/// on a constant without a value.
LogicalResult packConstants(const ::kvq::CacheMethod &method, CacheOp cache,
                            FusedAttentionOp attention, std::vector<char> &blob);

/// The values of a constant, dense or a resource; failure with a diagnostic when it has none.
FailureOr<SmallVector<float>> constantValues(ConstantOp constant);

} // namespace mlir::kvq

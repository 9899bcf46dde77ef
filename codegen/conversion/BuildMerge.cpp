// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// merge: the splits of one sequence and KV head become output rows in the basis the model expects.
#include "codegen/conversion/KernelBuilder.h"

#include "kvq/kernel_abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <cstddef>

#define ARG(field) offsetof(kvq_decode_kernel_args, field)

namespace mlir::kvq {

using ::kvq::Step;

/// Undoes the value pipeline. Where W_O holds the inverse rotation, the means are rotated forward
/// instead.
Value KernelBuilder::finishOutput(Value row, Value mass) {
  if (method.attention.unrotate_output)
    return undoSteps(method.value, row, mass);
  OpBuilder &builder = emit.builder;
  Value shift;
  for (const Step &step : method.value.steps) {
    if (step.kind == Step::Kind::rotate && shift)
      shift = rotate(shift, step, /*inverse=*/false, /*anyOrder=*/true);
    if (step.kind != Step::Kind::center)
      continue;
    if (!shift)
      shift = TileZeroRowOp::create(builder, emit.loc, row.getType());
    shift = TileAddMeanOp::create(builder, emit.loc, row.getType(), shift,
                                  constant(step.constant, constants, layer, constantHead), mass);
  }
  return shift ? TileAddRowOp::create(builder, emit.loc, row.getType(), row, shift) : row;
}

/// Writes the finished row of a query and, if the caller asked for it, its log-sum-exp.
void KernelBuilder::storeOutput(const Segment &segment, Value q, Value row, Value lse) {
  OpBuilder &builder = emit.builder;
  auto [token, head] = placeOf(segment, q);
  Value at = emit.add(emit.mul(token, argument(ARG(out_token_stride))),
                      emit.mul(head, argument(ARG(out_head_stride))));
  TileStoreRowOp::create(builder, emit.loc, row, emit.offset(pointerArgument(ARG(out)), at),
                         element(method.attention.rows));
  Value lseBase = pointerArgument(ARG(lse));
  Value null = LLVM::ZeroOp::create(builder, emit.loc, emit.pointer());
  Value wanted = LLVM::ICmpOp::create(builder, emit.loc, LLVM::ICmpPredicate::ne, lseBase, null);
  Value lseAt = emit.add(emit.mul(token, argument(ARG(lse_token_stride))),
                         emit.mul(head, argument(ARG(lse_head_stride))));
  emit.when(wanted, [&] { emit.store(lse, emit.offset(lseBase, lseAt)); });
}

void KernelBuilder::merge() {
  OpBuilder &builder = emit.builder;
  Segment segment = segmentAt(item);
  loadConstantPlace<kvq_decode_kernel_args>(segment.head);
  Workspace space = workspaceOf(method);
  int64_t stride = 4 * space.partialFloats();
  auto [firstSplit, endSplit] = splitsOf(segment);
  Value first = emit.add(emit.mul(item, partsOf()), firstSplit);
  Value partials = emit.offset(pointerArgument(ARG(partial)), emit.mul(first, stride));
  Value count = emit.sub(endSplit, firstSplit);
  if (method.windowed())
    count = emit.add(count, 1);
  Value workspace =
      emit.offset(pointerArgument(ARG(query)), emit.mul(item, 4 * space.queryFloats()));
  emit.loop(emit.index(0), segment.rows, 1, [&](Value q) {
    auto combined = TileCombineOp::create(builder, emit.loc, row(method.value.record.dim),
                                          emit.f32(), emit.f32(), partials, count, q,
                                          sinkOf(segment, q, workspace), stride, queries);
    Value out = finishOutput(combined.getRow(), combined.getMass());
    storeOutput(segment, q, out, emit.fadd(combined.getLse(), shiftOf(workspace, q)));
  });
}

} // namespace mlir::kvq

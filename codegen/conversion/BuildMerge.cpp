// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// merge: the splits of one sequence and KV head become output rows in the basis the model expects.
#include "codegen/conversion/KernelBuilder.h"

#include "kvq/kernel_abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <cstddef>

#define ARG(field) offsetof(kvq_cpu_decode_args, field)

namespace mlir::kvq {

using ::kvq::Step;

/// Undoes the value pipeline. Where W_O holds the inverse rotation, the means are rotated forward
/// instead.
Value KernelBuilder::finishOutput(Value row, Value mass) {
  OpBuilder &builder = emit.builder;
  const std::vector<Step> &steps = method.value.steps;
  auto mean = [&](const Step &step) {
    return constant(step.constant, constants, layer, constantHead);
  };
  if (method.attention.unrotate_output) {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      if (step->kind == Step::Kind::rotate)
        row = rotate(row, *step, /*inverse=*/true, /*anyOrder=*/true);
      else if (step->kind == Step::Kind::center)
        row = TileAddMeanOp::create(builder, emit.loc, row.getType(), row, mean(*step), mass);
    }
    return row;
  }
  Value shift;
  for (const Step &step : steps) {
    if (step.kind == Step::Kind::rotate && shift)
      shift = rotate(shift, step, /*inverse=*/false, /*anyOrder=*/true);
    if (step.kind != Step::Kind::center)
      continue;
    if (!shift)
      shift = TileZeroRowOp::create(builder, emit.loc, row.getType());
    shift = TileAddMeanOp::create(builder, emit.loc, row.getType(), shift, mean(step), mass);
  }
  return shift ? TileAddRowOp::create(builder, emit.loc, row.getType(), row, shift) : row;
}

Value KernelBuilder::splitCount(Value seq) {
  Value length =
      emit.load(emit.i32(), emit.offset(pointerArgument(ARG(lengths)), emit.mul(seq, 4)));
  length = arith::ExtSIOp::create(emit.builder, emit.loc, emit.i64(), length);
  Value perSplit = argument(ARG(split_tokens));
  return emit.div(emit.add(length, emit.sub(perSplit, emit.index(1))), perSplit);
}

/// Writes the finished row of a query and, if the caller asked for it, its log-sum-exp.
void KernelBuilder::storeOutput(Value seq, Value head, Value q, Value workspace, Value row,
                                Value lse) {
  OpBuilder &builder = emit.builder;
  Location loc = emit.loc;
  Value seqBase =
      emit.offset(pointerArgument(ARG(out)), emit.mul(seq, argument(ARG(out_seq_stride))));
  Value qHead = emit.add(emit.mul(head, queries), q);
  Value address = emit.offset(seqBase, emit.mul(qHead, argument(ARG(out_head_stride))));
  TileStoreRowOp::create(builder, loc, row, address, element(method.attention.rows));
  Value lseBase = pointerArgument(ARG(lse));
  Value null = LLVM::ZeroOp::create(builder, loc, emit.pointer());
  Value wanted = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, lseBase, null);
  emit.when(wanted, [&] {
    Value at = emit.add(emit.mul(seq, argument(ARG(lse_seq_stride))),
                        emit.mul(qHead, argument(ARG(lse_head_stride))));
    if (workspace) {
      Value shift =
          TileQueryShiftOp::create(builder, loc, emit.f32(), workspace, q, record, queries);
      lse = emit.fadd(lse, shift);
    }
    emit.store(lse, emit.offset(lseBase, at));
  });
}

void KernelBuilder::merge() {
  OpBuilder &builder = emit.builder;
  Value heads = argument(ARG(kv_heads));
  Value seq = emit.div(item, heads), head = emit.rem(item, heads);
  loadConstantPlace(head);
  Workspace space = workspaceOf(method);
  int64_t stride = 4 * space.partialFloats();
  Value splits = splitCount(seq);
  Value partials = emit.offset(pointerArgument(ARG(partial)),
                               emit.mul(emit.mul(item, argument(ARG(max_splits))), stride));
  Value workspace =
      emit.offset(pointerArgument(ARG(query)), emit.mul(item, 4 * space.queryFloats()));
  emit.loop(queries, [&](Value q) {
    auto combined =
        TileCombineOp::create(builder, emit.loc, row(method.value.record.dim), emit.f32(),
                              emit.f32(), partials, splits, q, stride, queries);
    Value out = finishOutput(combined.getRow(), combined.getMass());
    storeOutput(seq, head, q, workspace, out, combined.getLse());
  });
}

} // namespace mlir::kvq

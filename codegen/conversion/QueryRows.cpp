// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which query rows a work item handles, and what each may attend: the same for all targets
// (kernel_abi.h, section Decode).
#include "codegen/conversion/KernelBuilder.h"

#include "kvq/kernel_abi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <cstddef>

#define ARG(field) offsetof(kvq_decode_kernel_args, field)

namespace mlir::kvq {

Value KernelBuilder::isNull(Value pointer) {
  Value null = LLVM::ZeroOp::create(emit.builder, emit.loc, emit.pointer());
  return LLVM::ICmpOp::create(emit.builder, emit.loc, LLVM::ICmpPredicate::eq, pointer, null);
}

Segment KernelBuilder::segmentAt(Value number) {
  Value blocks = argument(ARG(row_blocks)), heads = argument(ARG(kv_heads));
  Value pair = emit.div(number, blocks), block = emit.rem(number, blocks);
  return segmentOf(number, emit.div(pair, heads), emit.rem(pair, heads), block);
}

Segment KernelBuilder::segmentOf(Value number, Value seq, Value head, Value block) {
  Value indptr = pointerArgument(ARG(q_indptr)), length = argument(ARG(q_length));
  Value uniform = isNull(indptr), zero = emit.index(0);
  // Without indptr the loads go to the lengths, of which there is one for this sequence.
  Value end = emit.select(uniform, seq, emit.add(seq, 1)), other = pointerArgument(ARG(lengths));
  Value begin = loadEither(indptr, other, seq);
  Value ragged = emit.sub(loadEither(indptr, other, end), begin);
  ragged = emit.select(emit.less(ragged, zero), zero, emit.min(ragged, length));
  Segment segment;
  segment.number = number, segment.seq = seq, segment.head = head;
  segment.tokens = emit.select(uniform, length, ragged);
  segment.firstToken = emit.select(uniform, emit.mul(seq, length), begin);
  segment.firstRow = emit.mul(block, queries);
  Value left = emit.sub(emit.mul(segment.tokens, argument(ARG(ratio))), segment.firstRow);
  segment.rows = emit.select(emit.less(left, zero), zero, emit.min(left, emit.index(queries)));
  return segment;
}

std::pair<Value, Value> KernelBuilder::placeOf(const Segment &segment, Value q) {
  Value row = emit.add(segment.firstRow, q), ratio = argument(ARG(ratio));
  Value token = emit.div(row, ratio);
  Value inGroup = emit.sub(row, emit.mul(token, ratio));
  return {emit.add(segment.firstToken, token), emit.add(emit.mul(segment.head, ratio), inGroup)};
}

Value KernelBuilder::lengthOf(Value seq) { return ofSequence(ARG(lengths), seq); }

Value KernelBuilder::boundsOf(const Segment &segment) {
  Value position = emit.sub(lengthOf(segment.seq), segment.tokens);
  return TileRowBoundsOp::create(emit.builder, emit.loc, fragment(FragmentKind::bounds),
                                 segment.firstRow, argument(ARG(ratio)), position,
                                 argument(ARG(window)), queries);
}

Value KernelBuilder::shiftOf(Value workspace, Value q) {
  if (method.attention.softcap != 0) // added before the tanh
    return emit.real(emit.f32(), 0);
  return TileQueryShiftOp::create(emit.builder, emit.loc, emit.f32(), workspace, q, record,
                                  queries);
}

Value KernelBuilder::sinkOf(const Segment &segment, Value q, Value workspace) {
  Value sinks = pointerArgument(ARG(sinks)), none = isNull(sinks);
  Value at = emit.mul(placeOf(segment, q).second, 4);
  // Without sinks the load goes to the workspace.
  Value from = emit.select(none, workspace, emit.offset(sinks, at));
  Value logit = emit.fsub(emit.load(emit.f32(), from), shiftOf(workspace, q));
  return emit.select(none, emit.realBits(emit.f32(), 0xff800000), logit);
}

} // namespace mlir::kvq

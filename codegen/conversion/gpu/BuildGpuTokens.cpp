// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of single tokens (kernel_abi.h, section Tokens) on a GPU: which item a warp or a thread
// takes. What it does with a token is the same on all targets, and commit a kernel here alone.
#include "codegen/conversion/gpu/GpuKernelBuilder.h"

#define TOKEN_ARG(field) offsetof(kvq_token_kernel_args, field)
#define DEMOTE_ARG(field) offsetof(kvq_demote_kernel_args, field)

namespace mlir::kvq {

Value GpuKernelBuilder::gridWarp() {
  WarpEmit &emit = warpEmit;
  Value warps = emit.shr(emit.blockThreads(), 5);
  return emit.wide(emit.add(emit.mul(emit.block(), warps), emit.warp()));
}

/// A kernel of tokens, one warp for each item.
void GpuKernelBuilder::tokenWarps(void (KernelBuilder::*body)()) {
  item = gridWarp();
  Value items = warpEmit.mul(argument(TOKEN_ARG(tokens)), argument(TOKEN_ARG(kv_heads)));
  warpEmit.when(warpEmit.less(item, items), [&] { (this->*body)(); });
}

void GpuKernelBuilder::demoteWarps() {
  WarpEmit &emit = warpEmit;
  item = gridWarp();
  Value pairs = emit.mul(argument(DEMOTE_ARG(batch)), argument(DEMOTE_ARG(most)));
  Value items = emit.mul(pairs, argument(DEMOTE_ARG(kv_heads)));
  emit.when(emit.less(item, items), [&] { demote(); });
}

/// One thread for each sequence.
void GpuKernelBuilder::commitThreads() {
  WarpEmit &emit = warpEmit;
  Value thread = emit.add(emit.mul(emit.block(), emit.blockThreads()), emit.thread());
  Value seq = emit.wide(thread), zero = emit.index(0);
  emit.when(emit.less(seq, argument(DEMOTE_ARG(batch))), [&] {
    Value step = argument(DEMOTE_ARG(step));
    Value leave =
        emit.sub(ofSequence(DEMOTE_ARG(lengths), seq), emit.index(method.sink + method.recent));
    leave = emit.select(emit.less(leave, zero), zero, leave);
    Value whole = emit.mul(emit.div(leave, step), step);
    Value from = ofSequence(DEMOTE_ARG(from), seq);
    Value to = emit.select(emit.less(whole, from), from, whole);
    emit.store(emit.narrowWord(to), emit.offset(pointerArgument(DEMOTE_ARG(to)), emit.mul(seq, 4)));
  });
}

} // namespace mlir::kvq

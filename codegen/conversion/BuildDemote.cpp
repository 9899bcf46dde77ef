// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// demote: the oldest rows of a recent window become records.
#include "codegen/conversion/KernelBuilder.h"

#include "codegen/conversion/TileMap.h"
#include "kvq/kernel_abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cstddef>

#define ARG(field) offsetof(kvq_demote_kernel_args, field)
#define WINDOW_ARG(field) (ARG(window) + offsetof(kvq_window_places, field))

namespace mlir::kvq {

/// Of an i32 array of sequences, i64.
Value KernelBuilder::ofSequence(size_t array, Value seq) {
  Value word = emit.load(emit.i32(), emit.offset(pointerArgument(array), emit.mul(seq, 4)));
  return arith::ExtSIOp::create(emit.builder, emit.loc, emit.i64(), word);
}

/// The id of the page that holds token `token` of a table.
static Value pageId(Emit &emit, Value ids, Value token, Value pageTokens) {
  Value id = emit.load(emit.i32(), emit.offset(ids, emit.mul(emit.div(token, pageTokens), 4)));
  return arith::ExtSIOp::create(emit.builder, emit.loc, emit.i64(), id);
}

void KernelBuilder::demote() {
  Value heads = argument(ARG(kv_heads)), most = argument(ARG(most));
  Value pair = emit.div(item, heads), head = emit.rem(item, heads);
  Value seq = emit.div(pair, most),
        token = emit.add(ofSequence(ARG(from), seq), emit.rem(pair, most));
  emit.when(emit.less(token, ofSequence(ARG(to), seq)), [&] {
    constants = pointerArgument(ARG(constants));
    layer = argument(ARG(layer));
    constantHead = emit.add(argument(ARG(first_head)), head);
    // Where the row lies.
    Value windowPage = argument(WINDOW_ARG(page_tokens));
    Value place = emit.rem(token, argument(WINDOW_ARG(capacity)));
    Value recent = emit.offset(pointerArgument(WINDOW_ARG(recent_table)),
                               emit.mul(seq, argument(WINDOW_ARG(recent_table_stride))));
    Value at = emit.add(
        emit.mul(pageId(emit, recent, place, windowPage), argument(WINDOW_ARG(page_stride))),
        emit.mul(head, argument(WINDOW_ARG(head_stride))));
    Value base = emit.offset(pointerArgument(WINDOW_ARG(pool)), at);
    // Where its record lies.
    Value page = argument(ARG(page_tokens)), indptr = pointerArgument(ARG(page_indptr));
    Value ragged = emit.mul(loadEither(indptr, pointerArgument(ARG(from)), seq), 4);
    Value begin =
        emit.select(isNull(indptr), emit.mul(seq, argument(ARG(block_table_stride))), ragged);
    Value ids = emit.offset(pointerArgument(ARG(block_table)), begin);
    Value position = emit.rem(token, page);
    int64_t tileBytes = ::kvq::buildRecord(record.getSpec()).tileBytes;
    Value bytes = emit.add(emit.mul(pageId(emit, ids, token, page), argument(ARG(page_stride))),
                           emit.mul(head, argument(ARG(head_stride))));
    bytes = emit.add(bytes, emit.mul(emit.div(position, kTileTokens), tileBytes));
    Value tile = emit.offset(pointerArgument(ARG(pool)), bytes);
    for (bool key : {true, false}) {
      const ::kvq::SideMethod &side = key ? method.key : method.value;
      Value address = windowRow(base, windowPage, emit.rem(place, windowPage), key);
      quantizeRow(key, loadRow(address, side.storedRows(), side.record.dim), tile,
                  emit.rem(position, kTileTokens));
    }
  });
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// demote: the oldest rows of a recent window become records.
#include "codegen/conversion/KernelBuilder.h"

#include "codegen/conversion/TileMap.h"
#include "kvq/kernel_abi.h"

#include <cstddef>

#define ARG(field) offsetof(kvq_demote_kernel_args, field)
#define WINDOW_ARG(field) (ARG(window) + offsetof(kvq_window_places, field))

namespace mlir::kvq {

void KernelBuilder::demote() {
  Value heads = argument(ARG(kv_heads)), most = argument(ARG(most));
  Value pair = emit.div(item, heads), head = emit.rem(item, heads);
  Value seq = emit.div(pair, most),
        token = emit.add(ofSequence(ARG(from), seq), emit.rem(pair, most));
  emit.when(emit.less(token, ofSequence(ARG(to), seq)), [&] {
    loadConstantPlace<kvq_demote_kernel_args>(head);
    // Where the row lies.
    constexpr PoolFields windowPool = poolFields<kvq_window_places>(ARG(window));
    Value windowPage = argument(windowPool.pageTokens);
    Value place = emit.rem(token, argument(WINDOW_ARG(capacity)));
    Value recent = emit.offset(pointerArgument(WINDOW_ARG(recent_table)),
                               emit.mul(seq, argument(WINDOW_ARG(recent_table_stride))));
    HeadPages windows = pagesOf(windowPool, head);
    Value base = pageOf(windows, pageId(recent, place, windowPage));
    // Where its record lies.
    Value page = argument(ARG(page_tokens));
    Value ids = pageIds(tableFields<kvq_demote_kernel_args>(ARG(from)), seq);
    Value position = emit.rem(token, page);
    HeadPages records = pagesOf(poolFields<kvq_demote_kernel_args>(), head);
    Value tile = tileOf(records, pageId(ids, token, page), position);
    for (bool key : {true, false}) {
      const ::kvq::SideMethod &side = key ? method.key : method.value;
      Value address = windowRow(base, windowPage, emit.rem(place, windowPage), key);
      quantizeRow(key, loadRow(address, side.storedRows(), side.record.dim), tile,
                  emit.rem(position, kTileTokens));
    }
  });
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rows of high-precision windows: where they lie (kvq_window_places), for all targets, and the
// loop of the CPU over them.
#include "codegen/conversion/KernelBuilder.h"

#include "codegen/conversion/TileMap.h"
#include "kvq/kernel_abi.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cstddef>

#define WINDOW_ARG(field)                                                                          \
  (offsetof(kvq_decode_kernel_args, windows) + offsetof(kvq_window_places, field))

namespace mlir::kvq {

Value KernelBuilder::quantizedOf(Value seq) {
  Value length = lengthOf(seq), zero = emit.index(0);
  if (!method.windowed())
    return length;
  Value count = ofSequence(WINDOW_ARG(quantized_lengths), seq);
  count = emit.min(count, emit.sub(length, emit.index(method.sink)));
  return emit.select(emit.less(count, zero), zero, count);
}

Value KernelBuilder::sinkTokens(Value length) { return emit.min(length, emit.index(method.sink)); }

KernelBuilder::WindowTile KernelBuilder::windowTile(const Segment &segment, Value isSink,
                                                    Value row) {
  Value length = lengthOf(segment.seq), sink = emit.index(method.sink), zero = emit.index(0);
  Value first = emit.select(isSink, zero, quantizedOf(segment.seq));
  Value end = emit.select(isSink, sinkTokens(length), emit.sub(length, sink));
  auto choose = [&](size_t ofSink, size_t ofRecent) {
    return emit.select(isSink, argument(ofSink), argument(ofRecent));
  };
  Value table = emit.select(isSink, pointerArgument(WINDOW_ARG(sink_table)),
                            pointerArgument(WINDOW_ARG(recent_table)));
  Value stride = choose(WINDOW_ARG(sink_table_stride), WINDOW_ARG(recent_table_stride));
  Value place = emit.select(isSink, row, emit.rem(row, argument(WINDOW_ARG(capacity))));
  Value page = argument(WINDOW_ARG(page_tokens)), column = emit.div(place, page);
  Value inPage = emit.sub(place, emit.mul(column, page));
  Value entry = emit.add(emit.mul(segment.seq, stride), emit.mul(column, 4));
  Value id = loadIndex(emit.offset(table, entry));
  constexpr PoolFields pool =
      poolFields<kvq_window_places>(offsetof(kvq_decode_kernel_args, windows));
  Value base = pageOf(pagesOf(pool, segment.head), id);
  return {windowRow(base, page, inPage, /*key=*/true), windowRow(base, page, inPage, /*key=*/false),
          emit.add(emit.select(isSink, zero, sink), row), emit.sub(first, row), emit.sub(end, row)};
}

Value KernelBuilder::windowScores(const WindowTile &tile, Value query, Value bounds) {
  Type type = fragment(FragmentKind::scores);
  Value scores =
      TileDotRowsOp::create(emit.builder, emit.loc, type, tile.keys, tile.begin, tile.end, query,
                            record, queries, element(method.key.storedRows()));
  scores = finishScores(scores, query, bounds, tile.position, /*tiles=*/1);
  return TileMaskRowsOp::create(emit.builder, emit.loc, type, scores, tile.begin, tile.end,
                                queries);
}

std::pair<Value, Value> KernelBuilder::attendWindow(const Segment &segment, Value query,
                                                    Value bounds, Value state, Value output) {
  OpBuilder &builder = emit.builder;
  Location loc = emit.loc;
  Value length = lengthOf(segment.seq), quantized = quantizedOf(segment.seq);
  auto rows = [&](bool isSink, Value from, Value to) {
    auto loop = scf::ForOp::create(builder, loc, from, to, emit.index(kTileTokens),
                                   ValueRange{state, output});
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value which = emit.integer(builder.getI1Type(), isSink);
    WindowTile tile = windowTile(segment, which, loop.getInductionVar());
    Value scores = windowScores(tile, query, bounds);
    auto softmax = TileSoftmaxOp::create(
        builder, loc, fragment(FragmentKind::softmax), fragment(FragmentKind::probs),
        fragment(FragmentKind::factors), loop.getRegionIterArg(0), scores, queries);
    Value sums = TileRescaleOp::create(builder, loc, output.getType(), loop.getRegionIterArg(1),
                                       softmax.getFactors(), record, queries);
    sums = TileAccumulateRowsOp::create(builder, loc, output.getType(), sums, tile.values,
                                        tile.begin, tile.end, softmax.getProbs(), record, queries,
                                        element(method.value.storedRows()));
    scf::YieldOp::create(builder, loc, ValueRange{softmax.getNext(), sums});
    state = loop.getResult(0), output = loop.getResult(1);
  };
  rows(/*isSink=*/true, emit.index(0), sinkTokens(length));
  Value first = emit.mul(emit.div(quantized, kTileTokens), kTileTokens);
  rows(/*isSink=*/false, first, emit.sub(length, emit.index(method.sink)));
  return {state, output};
}

} // namespace mlir::kvq

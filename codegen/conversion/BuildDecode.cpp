// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// prepare: the queries of one KV head, brought to the key's basis. decode: the tiles of one split
// of one sequence and KV head. A split begins at a multiple of split_tokens, so it does not depend
// on the batch.
#include "codegen/conversion/KernelBuilder.h"

#include "codegen/conversion/TileMap.h"
#include "kvq/kernel_abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#define ARG(field) offsetof(kvq_decode_kernel_args, field)

namespace mlir::kvq {

using ::kvq::Step;

/// What centering takes from every logit: the sum over center steps of (query in the step's basis)
/// . mean. Walks the steps forward when the kernel rotates the query, which ends up in the key's
/// basis; else backward over a copy.
Value KernelBuilder::keyShift(Value &query) {
  Value shift = emit.real(emit.f32(), 0);
  auto visit = [&](const Step &step, bool inverse) {
    if (step.kind == Step::Kind::rotate)
      query = rotate(query, step, inverse, /*anyOrder=*/true);
    if (step.kind != Step::Kind::center)
      return;
    Value mean = constant(step.constant, constants, layer, constantHead);
    Value dot = TileDotMeanOp::create(emit.builder, emit.loc, emit.f32(), query, mean);
    shift = emit.fadd(shift, dot);
  };
  const std::vector<Step> &steps = method.key.steps;
  if (method.attention.rotate_query)
    std::for_each(steps.begin(), steps.end(), [&](const Step &step) { visit(step, false); });
  else
    std::for_each(steps.rbegin(), steps.rend(), [&](const Step &step) { visit(step, true); });
  return shift;
}

void KernelBuilder::prepareQuery(const Segment &segment, Value q, Value workspace) {
  OpBuilder &builder = emit.builder;
  Value scale = emit.loadField(args, ARG(scale), emit.f32());
  auto [token, head] = placeOf(segment, q);
  Value at = emit.add(emit.mul(token, argument(ARG(q_token_stride))),
                      emit.mul(head, argument(ARG(q_head_stride))));
  Value address = emit.offset(pointerArgument(ARG(q)), at);
  Value moved = loadRow(address, method.attention.rows, method.key.record.dim);
  Value shift = keyShift(moved);
  // A query that arrives rotated was walked backward for the shift alone: read it again.
  Value row = method.attention.rotate_query
                  ? moved
                  : loadRow(address, method.attention.rows, method.key.record.dim);
  row = TileScaleRowOp::create(builder, emit.loc, row.getType(), row, scale);
  TileStoreQueryOp::create(builder, emit.loc, row, emit.fmul(shift, scale), workspace, q, record,
                           queries);
}

void KernelBuilder::prepareRow(const Segment &segment, Value q, Value workspace) {
  emit.when(emit.less(q, segment.rows), [&] { prepareQuery(segment, q, workspace); });
  emit.when(emit.less(segment.rows, emit.add(q, 1)), [&] {
    TileClearQueryOp::create(emit.builder, emit.loc, workspace, q, record, queries);
  });
}

void KernelBuilder::prepare() {
  Segment segment = segmentAt(item);
  loadConstantPlace<kvq_decode_kernel_args>(segment.head);
  Value workspace = emit.offset(pointerArgument(ARG(query)),
                                emit.mul(item, 4 * workspaceOf(method).queryFloats()));
  emit.loop(queries, [&](Value q) { prepareRow(segment, q, workspace); });
}

Value KernelBuilder::tileAddress(Value seq, Value head, Value token) {
  Value page = argument(ARG(page_tokens));
  Value id = pageId(pageIds(tableFields<kvq_decode_kernel_args>(ARG(lengths)), seq), token, page);
  HeadPages pages = pagesOf(poolFields<kvq_decode_kernel_args>(), head);
  return tileOf(pages, id, emit.rem(token, page));
}

std::pair<Value, Value> KernelBuilder::splitsOf(const Segment &segment) {
  Value tokens = quantizedOf(segment.seq), perSplit = argument(ARG(split_tokens));
  Value zero = emit.index(0), first = zero;
  Value end = emit.div(emit.add(tokens, emit.sub(perSplit, emit.index(1))), perSplit);
  if (method.windowed()) // the partial result of the window comes first, and all others follow it
    return {zero, end};
  // The first token that the first query token attends.
  Value attended = emit.add(emit.sub(argument(ARG(window)), emit.index(1)), segment.tokens);
  first = emit.sub(tokens, attended);
  return {emit.div(emit.select(emit.less(first, zero), zero, first), perSplit), end};
}

std::pair<Value, Value> KernelBuilder::attendTile(const Segment &segment, Value query, Value bounds,
                                                  Value token, Value end, Value state,
                                                  Value output) {
  OpBuilder &builder = emit.builder;
  Location loc = emit.loc;
  Value tile = tileAddress(segment.seq, segment.head, token), valid = emit.sub(end, token);
  auto parameters = [&](TileSideKind side) -> Value {
    return TileLoadParamsOp::create(builder, loc, fragment(FragmentKind::params), tile, valid,
                                    record, side);
  };
  Value keyParams = parameters(TileSideKind::key);
  Value dots =
      TileDotOp::create(builder, loc, fragment(FragmentKind::dots), tile, query, record, queries);
  Value scores = TileScoreOp::create(builder, loc, fragment(FragmentKind::scores), dots, keyParams,
                                     query, record, queries);
  scores = finishScores(scores, query, bounds, emit.add(token, method.sink), /*tiles=*/1);
  scores = maskRecords(scores, valid, /*tiles=*/1);
  auto softmax = TileSoftmaxOp::create(builder, loc, fragment(FragmentKind::softmax),
                                       fragment(FragmentKind::probs),
                                       fragment(FragmentKind::factors), state, scores, queries);
  Value sums = TileRescaleOp::create(builder, loc, output.getType(), output, softmax.getFactors(),
                                     record, queries);
  Value valueParams = parameters(TileSideKind::value);
  Value weights = TileWeighOp::create(builder, loc, fragment(FragmentKind::weights),
                                      softmax.getProbs(), valueParams, record, queries);
  sums = TileAddOffsetsOp::create(builder, loc, output.getType(), sums, softmax.getProbs(),
                                  valueParams, record, queries);
  sums = TileAccumulateOp::create(builder, loc, output.getType(), sums, tile, weights, record,
                                  queries);
  return {softmax.getNext(), sums};
}

/// The softcap of the method, and -inf where a row does not attend a token.
Value KernelBuilder::finishScores(Value scores, Value query, Value bounds, Value first,
                                  int64_t tiles) {
  OpBuilder &builder = emit.builder;
  if (method.attention.softcap != 0)
    scores = TileSoftcapOp::create(builder, emit.loc, scores.getType(), scores, query,
                                   llvm::APFloat(double(method.attention.softcap)), record, queries,
                                   tiles);
  if (!bounds)
    return scores;
  return TileMaskScoresOp::create(builder, emit.loc, scores.getType(), scores, bounds, first,
                                  queries, tiles);
}

/// The partial result of `attend`, which takes query, bounds, state and output.
void KernelBuilder::attendPart(const Segment &segment, AttendFn attend) {
  OpBuilder &builder = emit.builder;
  Location loc = emit.loc;
  Workspace space = workspaceOf(method);
  Value workspace =
      emit.offset(pointerArgument(ARG(query)), emit.mul(segment.number, 4 * space.queryFloats()));
  Value query = TileLoadQueryOp::create(builder, loc, fragment(FragmentKind::query), workspace,
                                        record, queries);
  Value state = TileInitSoftmaxOp::create(builder, loc, fragment(FragmentKind::softmax), queries,
                                          /*record=*/TileRecordAttr());
  Value output = TileInitOutputOp::create(builder, loc, fragment(FragmentKind::output),
                                          /*partial=*/Value(), record, queries);
  std::tie(state, output) = attend(query, boundsOf(segment), state, output);
  Value partial =
      emit.offset(pointerArgument(ARG(partial)), emit.mul(item, 4 * space.partialFloats()));
  TileFlushOp::create(builder, loc, output, state, partial, record, queries);
}

/// Without windows the bounds of the rows end where the records do. With them, records end before:
/// -inf for the tokens of the tiles that are not, or no longer, in records.
Value KernelBuilder::maskRecords(Value scores, Value valid, int64_t tiles) {
  if (!method.windowed())
    return scores;
  return TileMaskRowsOp::create(emit.builder, emit.loc, scores.getType(), scores, emit.index(0),
                                valid, queries, tiles);
}

void KernelBuilder::decode() {
  OpBuilder &builder = emit.builder;
  Value parts = partsOf(), part = emit.rem(item, parts);
  Segment segment = segmentAt(emit.div(item, parts));
  Value split = part;
  if (method.windowed()) {
    emit.when(emit.equal(part, emit.index(0)), [&] {
      attendPart(segment, [&](Value query, Value bounds, Value state, Value output) {
        return attendWindow(segment, query, bounds, state, output);
      });
    });
    split = emit.sub(part, emit.index(1));
  }
  auto [firstSplit, endSplit] = splitsOf(segment);
  Value perSplit = argument(ARG(split_tokens)), begin = emit.mul(split, perSplit);
  Value end = emit.min(quantizedOf(segment.seq), emit.add(begin, perSplit));
  Value wanted = emit.bitAnd(emit.less(split, endSplit), emit.less(firstSplit, emit.add(split, 1)));
  emit.when(wanted, [&] {
    attendPart(segment, [&](Value query, Value bounds, Value state, Value output) {
      auto loop = scf::ForOp::create(builder, emit.loc, begin, end, emit.index(kTileTokens),
                                     ValueRange{state, output});
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(loop.getBody());
      auto [next, sums] = attendTile(segment, query, bounds, loop.getInductionVar(), end,
                                     loop.getRegionIterArg(0), loop.getRegionIterArg(1));
      scf::YieldOp::create(builder, emit.loc, ValueRange{next, sums});
      return std::pair<Value, Value>(loop.getResult(0), loop.getResult(1));
    });
  });
}

/// Partial results of a segment: of its splits, before them of the window's rows.
Value KernelBuilder::partsOf() {
  Value splits = argument(ARG(max_splits));
  return method.windowed() ? emit.add(splits, 1) : splits;
}

} // namespace mlir::kvq

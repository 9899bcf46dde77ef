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

#define ARG(field) offsetof(kvq_cpu_decode_args, field)

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

void KernelBuilder::prepareQuery(Value seq, Value head, Value q, Value workspace) {
  OpBuilder &builder = emit.builder;
  Value scale = emit.loadField(args, ARG(scale), emit.f32());
  Value seqBase = emit.offset(pointerArgument(ARG(q)), emit.mul(seq, argument(ARG(q_seq_stride))));
  Value qHead = emit.add(emit.mul(head, queries), q);
  Value address = emit.offset(seqBase, emit.mul(qHead, argument(ARG(q_head_stride))));
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

void KernelBuilder::loadConstantPlace(Value head) {
  constants = pointerArgument(ARG(constants));
  layer = argument(ARG(layer));
  constantHead = emit.add(argument(ARG(first_head)), head);
}

void KernelBuilder::prepare() {
  Value heads = argument(ARG(kv_heads));
  Value seq = emit.div(item, heads), head = emit.rem(item, heads);
  loadConstantPlace(head);
  Value workspace = emit.offset(pointerArgument(ARG(query)),
                                emit.mul(item, 4 * workspaceOf(method).queryFloats()));
  emit.loop(queries, [&](Value q) { prepareQuery(seq, head, q, workspace); });
}

Value KernelBuilder::tileAddress(Value seq, Value head, Value token) {
  Value page = argument(ARG(page_tokens));
  Value entry = emit.add(emit.mul(seq, argument(ARG(block_table_stride))),
                         emit.mul(emit.div(token, page), 4));
  Value id = emit.load(emit.i32(), emit.offset(pointerArgument(ARG(block_table)), entry));
  Value wide = arith::ExtSIOp::create(emit.builder, emit.loc, emit.i64(), id);
  int64_t tileBytes = ::kvq::buildRecord(record.getSpec()).tileBytes;
  Value bytes = emit.add(emit.mul(wide, argument(ARG(page_stride))),
                         emit.mul(head, argument(ARG(head_stride))));
  bytes = emit.add(bytes, emit.mul(emit.div(emit.rem(token, page), kTileTokens), tileBytes));
  return emit.offset(pointerArgument(ARG(pool)), bytes);
}

void KernelBuilder::decode() {
  OpBuilder &builder = emit.builder;
  Location loc = emit.loc;
  Value heads = argument(ARG(kv_heads)), splits = argument(ARG(max_splits));
  Value seqHead = emit.div(item, splits), split = emit.rem(item, splits);
  Value seq = emit.div(seqHead, heads), head = emit.rem(seqHead, heads);
  Value length =
      emit.load(emit.i32(), emit.offset(pointerArgument(ARG(lengths)), emit.mul(seq, 4)));
  length = arith::ExtSIOp::create(builder, loc, emit.i64(), length);
  Value perSplit = argument(ARG(split_tokens));
  Value begin = emit.mul(split, perSplit), end = emit.min(length, emit.add(begin, perSplit));
  emit.when(emit.less(begin, length), [&] {
    Workspace space = workspaceOf(method);
    Value workspace =
        emit.offset(pointerArgument(ARG(query)), emit.mul(seqHead, 4 * space.queryFloats()));
    Value query = TileLoadQueryOp::create(builder, loc, fragment(FragmentKind::query), workspace,
                                          record, queries);
    Value state = TileInitSoftmaxOp::create(builder, loc, fragment(FragmentKind::softmax), queries,
                                            /*record=*/TileRecordAttr());
    Value output = TileInitOutputOp::create(builder, loc, fragment(FragmentKind::output),
                                            /*partial=*/Value(), record, queries);
    auto loop = scf::ForOp::create(builder, loc, begin, end, emit.index(kTileTokens),
                                   ValueRange{state, output});
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(loop.getBody());
      Value token = loop.getInductionVar();
      Value tile = tileAddress(seq, head, token);
      Value valid = emit.sub(end, token);
      auto parameters = [&](TileSideKind side) -> Value {
        return TileLoadParamsOp::create(builder, loc, fragment(FragmentKind::params), tile, valid,
                                        record, side);
      };
      Value keyParams = parameters(TileSideKind::key);
      Value dots = TileDotOp::create(builder, loc, fragment(FragmentKind::dots), tile, query,
                                     record, queries);
      Value scores = TileScoreOp::create(builder, loc, fragment(FragmentKind::scores), dots,
                                         keyParams, query, valid, record, queries);
      auto softmax = TileSoftmaxOp::create(
          builder, loc, fragment(FragmentKind::softmax), fragment(FragmentKind::probs),
          fragment(FragmentKind::factors), loop.getRegionIterArg(0), scores, queries);
      Value sums = TileRescaleOp::create(builder, loc, output.getType(), loop.getRegionIterArg(1),
                                         softmax.getFactors(), record, queries);
      Value valueParams = parameters(TileSideKind::value);
      Value weights = TileWeighOp::create(builder, loc, fragment(FragmentKind::weights),
                                          softmax.getProbs(), valueParams, record, queries);
      sums = TileAddOffsetsOp::create(builder, loc, output.getType(), sums, softmax.getProbs(),
                                      valueParams, record, queries);
      sums = TileAccumulateOp::create(builder, loc, output.getType(), sums, tile, weights, record,
                                      queries);
      scf::YieldOp::create(builder, loc, ValueRange{softmax.getNext(), sums});
    }
    Value partial =
        emit.offset(pointerArgument(ARG(partial)), emit.mul(item, 4 * space.partialFloats()));
    TileFlushOp::create(builder, loc, loop.getResult(1), loop.getResult(0), partial, record,
                        queries);
  });
}

} // namespace mlir::kvq

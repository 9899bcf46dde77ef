// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a warp does with its units of a piece (DecodeBuilder.h).
#include "codegen/conversion/gpu/DecodeBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <tuple>

#define ARG(field) offsetof(kvq_decode_kernel_args, field)

namespace mlir::kvq {

constexpr int64_t kUnit = KVQ_GPU_UNIT_TOKENS;

/// `schedule.tiles` tiles at `tiles`; without limits every row attends every token.
std::pair<Value, Value> DecodeBuilder::step(Value tiles, Value query, Value state, Value output,
                                            std::optional<Limits> limits) {
  OpBuilder &builder = emit.builder;
  Location loc = emit.loc;
  auto parameters = [&](TileSideKind side) -> Value {
    return TileLoadParamsOp::create(builder, loc, fragment(FragmentKind::params), tiles,
                                    limits ? limits->valid : Value(), record, side, schedule.tiles);
  };
  Value keyParams = parameters(TileSideKind::key);
  Value dots = TileDotOp::create(builder, loc, fragment(FragmentKind::dots), tiles, query, record,
                                 queries, schedule.tiles);
  Value scores = TileScoreOp::create(builder, loc, fragment(FragmentKind::scores), dots, keyParams,
                                     query, record, queries, schedule.tiles);
  scores = finishScores(scores, query, limits ? limits->bounds : Value(),
                        limits ? limits->position : Value(), schedule.tiles);
  if (limits)
    scores = maskRecords(scores, limits->valid, schedule.tiles);
  Value valueParams = parameters(TileSideKind::value);
  auto weighed = TileWeighIntegerOp::create(builder, loc, fragment(FragmentKind::softmax),
                                            fragment(FragmentKind::output),
                                            fragment(FragmentKind::weights), state, output, scores,
                                            valueParams, record, queries, schedule.tiles);
  Value sums =
      TileAccumulateOp::create(builder, loc, fragment(FragmentKind::output), weighed.getSums(),
                               tiles, weighed.getWeights(), record, queries, schedule.tiles);
  return {weighed.getNext(), sums};
}

/// The next unit of the ring.
std::pair<Value, Value> DecodeBuilder::unit(Ring &ring, Value query, Value state, Value output,
                                            std::optional<Limits> limits) {
  int64_t tileBytes = ::kvq::buildRecord(record.getSpec()).tileBytes;
  Value tiles = ring.wait();
  for (int64_t tile = 0; tile < kUnit / 16; tile += schedule.tiles) {
    std::optional<Limits> rest = limits;
    if (rest && tile) {
      rest->valid = emit.sub(limits->valid, emit.index(16 * tile));
      rest->position = emit.add(limits->position, 16 * tile);
    }
    std::tie(state, output) =
        step(emit.offset(tiles, tile * tileBytes), query, state, output, rest);
  }
  ring.release();
  return {state, output};
}

Value DecodeBuilder::windowUnitsOf(const Piece &piece) {
  return emit.add(piece.window.sink, piece.window.recent);
}

/// The unit of the list at which unit 0 of the segment's records would stand.
Value DecodeBuilder::originOf(const Piece &piece) {
  Value origin = emit.sub(piece.segmentBegin, piece.firstUnit);
  return method.windowed() ? emit.add(origin, windowUnitsOf(piece)) : origin;
}

/// Which units of the piece are this warp's, `mine` being its first.
DecodeBuilder::Share DecodeBuilder::shareOf(const Piece &piece, Value mine) {
  Value zero = emit.index(0), one = emit.index(1);
  // Units from `mine` up to `end`, every team_warps-th.
  auto until = [&](Value end) {
    Value ahead = emit.add(emit.sub(end, mine), emit.sub(teamWarps, one));
    Value count = arith::ShRSIOp::create(emit.builder, emit.loc, ahead, teamShift);
    return emit.select(emit.less(count, zero), zero, count);
  };
  Share share;
  share.count = until(piece.end);
  // The first row of the block sees the fewest tokens at the end, the last one at the beginning.
  Value ratio = argument(ARG(ratio)), position = emit.sub(piece.length, piece.rows.tokens);
  Value lastRow = emit.sub(emit.add(piece.rows.firstRow, piece.rows.rows), one);
  auto positionOf = [&](Value row) { return emit.add(position, emit.div(row, ratio)); };
  Value end = emit.add(positionOf(piece.rows.firstRow), one);
  Value begin = emit.add(emit.sub(positionOf(lastRow), argument(ARG(window))), one);
  begin = emit.select(emit.less(begin, zero), zero, begin);
  end = emit.select(emit.less(end, zero), zero, end);
  // Records hold positions from the sink on.
  if (method.windowed()) {
    auto inRecords = [&](Value position) {
      Value token = emit.sub(position, emit.index(method.sink));
      return emit.select(emit.less(token, zero), zero, token);
    };
    begin = inRecords(begin), end = emit.min(inRecords(end), piece.quantized);
  }
  Value origin = originOf(piece);
  Value firstWhole = emit.add(origin, emit.div(emit.add(begin, kUnit - 1), kUnit));
  Value endWhole = emit.add(origin, emit.div(end, kUnit));
  share.window = zero;
  share.whole = emit.min(until(firstWhole), share.count);
  if (method.windowed()) {
    Value records = until(emit.add(piece.segmentBegin, windowUnitsOf(piece)));
    share.window = emit.min(records, share.count);
    share.whole = emit.select(emit.less(share.whole, share.window), share.window, share.whole);
  }
  Value wholeEnd = emit.min(until(endWhole), share.count);
  share.wholeEnd = emit.select(emit.less(wholeEnd, share.whole), share.whole, wholeEnd);
  return share;
}

/// body(k, state, output) for k from `from` up to `to`.
void DecodeBuilder::unitsOf(Value from, Value to, Value &state, Value &output,
                            function_ref<std::pair<Value, Value>(Value, Value, Value)> body) {
  OpBuilder &builder = emit.builder;
  auto loop =
      scf::ForOp::create(builder, emit.loc, from, to, emit.index(1), ValueRange{state, output});
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  auto [next, sums] =
      body(loop.getInductionVar(), loop.getRegionIterArg(0), loop.getRegionIterArg(1));
  scf::YieldOp::create(builder, emit.loc, ValueRange{next, sums});
  state = loop.getResult(0), output = loop.getResult(1);
}

/// One tile of window rows.
std::pair<Value, Value> DecodeBuilder::windowStep(const WindowTile &tile, Value query, Value bounds,
                                                  Value state, Value output) {
  OpBuilder &builder = emit.builder;
  Type stored = element(method.value.storedRows());
  Value scores = windowScores(tile, query, bounds);
  auto weighed = TileWeighWindowOp::create(builder, emit.loc, state.getType(), output.getType(),
                                           fragment(FragmentKind::window_weights), state, output,
                                           scores, record, queries, stored);
  Value sums = TileAccumulateWindowOp::create(builder, emit.loc, output.getType(),
                                              weighed.getSums(), tile.values, tile.begin, tile.end,
                                              weighed.getWeights(), record, queries, stored);
  return {weighed.getNext(), sums};
}

/// Whether some row of the tile counts that begins with row `row` (windowTile).
Value DecodeBuilder::windowHolds(const Piece &piece, Value isSink, Value row) {
  Value end = emit.select(isSink, sinkTokens(piece.length),
                          emit.sub(piece.length, emit.index(method.sink)));
  Value first = emit.select(isSink, emit.index(0), piece.quantized);
  return emit.bitAnd(emit.less(row, end), emit.less(first, emit.add(row, 16)));
}

/// The tiles of a unit of window rows, `unit` of the segment.
std::pair<Value, Value> DecodeBuilder::windowUnit(const Piece &piece, Value unit, Value query,
                                                  Value bounds, Value state, Value output) {
  OpBuilder &builder = emit.builder;
  Value isSink = emit.less(unit, piece.window.sink), zero = emit.index(0);
  Value ofRecent = emit.add(emit.sub(unit, piece.window.sink), piece.window.first);
  Value first = emit.mul(emit.select(isSink, unit, ofRecent), kUnit);
  unitsOf(zero, emit.index(kUnit / 16), state, output, [&](Value k, Value state, Value output) {
    Type types[] = {state.getType(), output.getType()};
    Value row = emit.add(first, emit.mul(k, 16));
    auto branch = scf::IfOp::create(builder, emit.loc, types, windowHolds(piece, isSink, row),
                                    /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&branch.getThenRegion().front());
    // Here alone: past the rows that count the table may have no page.
    WindowTile tile = windowTile(piece.rows, isSink, row);
    auto [next, sums] = windowStep(tile, query, bounds, state, output);
    scf::YieldOp::create(builder, emit.loc, ValueRange{next, sums});
    builder.setInsertionPointToStart(&branch.getElseRegion().front());
    scf::YieldOp::create(builder, emit.loc, ValueRange{state, output});
    return std::pair<Value, Value>(branch.getResult(0), branch.getResult(1));
  });
  return {state, output};
}

/// The first `count` units of the warp's share are of window rows; state and output for the records
/// begin with what they give. The ring holds nothing of them.
std::pair<Value, Value> DecodeBuilder::enterWindow(const Piece &piece, Value mine, Value count,
                                                   Ring &ring, Value query, Value bounds,
                                                   Value state, Value output) {
  OpBuilder &builder = emit.builder;
  auto window = TileInitWindowOp::create(builder, emit.loc, fragment(FragmentKind::window_softmax),
                                         fragment(FragmentKind::window_output), record, queries);
  Value rows = window.getState(), sums = window.getOutput();
  Value first = emit.sub(mine, piece.segmentBegin);
  unitsOf(emit.index(0), count, rows, sums, [&](Value k, Value rows, Value sums) {
    ring.wait();
    ring.release();
    Value unit = emit.add(first, emit.mul(k, teamWarps));
    return windowUnit(piece, unit, query, bounds, rows, sums);
  });
  auto entered = TileEnterWindowOp::create(builder, emit.loc, state.getType(), output.getType(),
                                           state, output, rows, sums, record, queries);
  return {entered.getNext(), entered.getResult()};
}

/// The units of the piece that are this warp's: those that only some rows attend as a whole, at
/// both ends, and those between.
void DecodeBuilder::attend(const Piece &piece, Ring &ring, Variable &nextUnit) {
  WarpEmit &emit = warpEmit;
  OpBuilder &builder = emit.builder;
  Location loc = emit.loc;
  Value workspace = emit.offset(pointerArgument(ARG(query)),
                                emit.mul(piece.rows.number, 4 * space.queryFloats()));
  Value query = TileLoadQueryOp::create(builder, loc, fragment(FragmentKind::query), workspace,
                                        record, queries);
  Value state =
      TileInitSoftmaxOp::create(builder, loc, fragment(FragmentKind::softmax), queries, record);
  Value output = TileInitOutputOp::create(builder, loc, fragment(FragmentKind::output), partialBase,
                                          record, queries);
  Value mine = nextUnit.get(), bounds = boundsOf(piece.rows);
  Share share = shareOf(piece, mine);
  if (method.windowed())
    std::tie(state, output) =
        enterWindow(piece, mine, share.window, ring, query, bounds, state, output);
  Value origin = emit.sub(mine, originOf(piece));
  auto limited = [&](Value k, Value state, Value output) {
    Value token = emit.mul(emit.add(origin, emit.mul(k, teamWarps)), kUnit);
    Value position = emit.add(token, method.sink);
    return unit(ring, query, state, output,
                Limits{emit.sub(piece.quantized, token), position, bounds});
  };
  auto whole = [&](Value, Value state, Value output) {
    return unit(ring, query, state, output, std::nullopt);
  };
  // Twice, so that the code of a limited unit stands there once: before the whole units, after.
  unitsOf(emit.index(0), emit.index(2), state, output, [&](Value side, Value state, Value output) {
    Value before = emit.equal(side, emit.index(0));
    unitsOf(emit.select(before, share.window, share.wholeEnd),
            emit.select(before, share.whole, share.count), state, output, limited);
    unitsOf(share.whole, emit.select(before, share.wholeEnd, share.whole), state, output, whole);
    return std::pair(state, output);
  });
  nextUnit.set(emit.add(mine, emit.mul(share.count, teamWarps)));
  TileFlushOp::create(builder, loc, output, state, partialBase, record, queries);
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// decode: a team of warps takes a contiguous part of the list of all units, and cuts it into pieces
// at the ends of sequences and KV heads (and of chunks, in deterministic splits). The warps of a
// team take the units of a piece in turn, each through its own ring; at the end of a piece they
// merge through shared memory, and where several teams share a sequence and KV head, the last one
// to arrive merges their results. Schedule: kernels-2.md section 2, kernels.md section 5.
#include "codegen/conversion/gpu/GpuKernelBuilder.h"
#include "codegen/conversion/gpu/Ring.h"
#include "codegen/conversion/gpu/TeamDivision.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <optional>
#include <tuple>

#define ARG(field) offsetof(kvq_decode_kernel_args, field)
#define GPU_ARG(field) offsetof(kvq_gpu_decode_args, field)

namespace mlir::kvq {
namespace {

constexpr int64_t kUnit = KVQ_GPU_UNIT_TOKENS;

class DecodeBuilder : public GpuKernelBuilder {
public:
  explicit DecodeBuilder(const GpuKernelBuilder &other)
      : GpuKernelBuilder(other), space(gpuWorkspaceOf(method)), schedule(scheduleOf(method, chip)) {
  }

  void build();

private:
  /// A part of one sequence and KV head; units are numbers in the list of all units.
  struct Piece {
    Segment rows;
    Value length, firstUnit; ///< of the sequence; unit of its records that the segment begins with
    Value segmentBegin, segmentEnd, begin, end;
  };
  /// The warp's units of a piece, counted from its next: all rows attend all tokens of those from
  /// `whole` up to `wholeEnd`.
  struct Share {
    Value count, whole, wholeEnd;
  };

  void loadTeam();
  /// What a step needs to know of tokens that not all rows attend: how many of the unit there are,
  /// the position of its first, and the bounds of the rows.
  struct Limits {
    Value valid, position, bounds;
  };

  Share shareOf(const Piece &piece, Value mine);
  void attend(const Piece &piece, Ring &ring, Variable &nextUnit);
  void unitsOf(Value from, Value to, Value &state, Value &output,
               function_ref<std::pair<Value, Value>(Value, Value, Value)> body);
  std::pair<Value, Value> step(Value tiles, Value query, Value state, Value output,
                               std::optional<Limits> limits);
  std::pair<Value, Value> unit(Ring &ring, Value query, Value state, Value output,
                               std::optional<Limits> limits);
  Piece locate(Value begin, Value end, Variable &seq);
  void placeParts(const Piece &piece);
  void mergePiece(const Piece &piece);
  void mergeRow(const Piece &piece, Value q);
  void syncTeam();
  Value unitsBefore(Value seq) { return warpEmit.wide(planWord(arrays.units, seq)); }

  GpuWorkspace space;
  GpuSchedule schedule;
  Plan arrays;
  Value heads; ///< KV heads times row blocks
  Value teams, team, teamOfBlock, teamWarps, teamShift, local, chunkUnits, partialBase;
  // What of a piece is merged through the workspace: the number of parts and their first slot.
  std::optional<Variable> parts, firstSlot, mySlot;
};

void DecodeBuilder::loadTeam() {
  WarpEmit &emit = warpEmit;
  arrays = planArrays();
  heads = headsAndBlocks(), teams = argument(GPU_ARG(teams));
  teamWarps = argument(GPU_ARG(team_warps)), chunkUnits = argument(GPU_ARG(chunk_units));
  teamShift = LLVM::CtPopOp::create(emit.builder, emit.loc, emit.sub(teamWarps, emit.index(1)));
  Value size = emit.narrowWord(teamWarps), ofBlock = emit.div(emit.word(schedule.warps), size);
  teamOfBlock = emit.div(emit.warp(), size);
  team = emit.wide(emit.add(emit.mul(emit.block(), ofBlock), teamOfBlock));
  local = emit.wide(emit.sub(emit.warp(), emit.mul(teamOfBlock, size)));
}

void DecodeBuilder::syncTeam() {
  WarpEmit &emit = warpEmit;
  Value one = emit.equal(teamWarps, emit.index(1));
  emit.whenElse(
      one, [&] { emit.syncWarp(); },
      [&] {
        Value number = emit.div(emit.wide(emit.warp()), teamWarps);
        emit.syncTeam(emit.narrowWord(emit.add(number, 1)),
                      emit.narrowWord(emit.mul(teamWarps, 32)));
      });
}

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
  Value origin = emit.sub(piece.segmentBegin, piece.firstUnit);
  Value firstWhole = emit.add(origin, emit.div(emit.add(begin, kUnit - 1), kUnit));
  Value endWhole = emit.add(origin, emit.div(end, kUnit));
  share.whole = emit.min(until(firstWhole), share.count);
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
  Value origin = emit.add(emit.sub(mine, piece.segmentBegin), piece.firstUnit);
  auto limited = [&](Value k, Value state, Value output) {
    Value token = emit.mul(emit.add(origin, emit.mul(k, teamWarps)), kUnit);
    return unit(ring, query, state, output, Limits{emit.sub(piece.length, token), token, bounds});
  };
  auto whole = [&](Value, Value state, Value output) {
    return unit(ring, query, state, output, std::nullopt);
  };
  // Twice, so that the code of a limited unit stands there once: before the whole units, after.
  unitsOf(emit.index(0), emit.index(2), state, output, [&](Value side, Value state, Value output) {
    Value before = emit.equal(side, emit.index(0));
    unitsOf(emit.select(before, emit.index(0), share.wholeEnd),
            emit.select(before, share.whole, share.count), state, output, limited);
    unitsOf(share.whole, emit.select(before, share.wholeEnd, share.whole), state, output, whole);
    return std::pair(state, output);
  });
  nextUnit.set(emit.add(mine, emit.mul(share.count, teamWarps)));
  TileFlushOp::create(builder, loc, output, state, partialBase, record, queries);
}

void DecodeBuilder::mergeRow(const Piece &piece, Value q) {
  WarpEmit &emit = warpEmit;
  OpBuilder &builder = emit.builder;
  Location loc = emit.loc;
  Type rowType = row(method.value.record.dim);
  Value teamBase =
      emit.offset(partialBase, emit.mul(emit.sub(emit.index(0), local), 4 * space.warpWords()));
  auto merged = TileMergeWarpsOp::create(builder, loc, rowType, emit.f32(), emit.f32(), teamBase,
                                         teamWarps, q, record, queries);
  Variable most(emit, merged.getMax()), sum(emit, merged.getSum());
  Variable finished(emit, emit.word(1));
  Value shared = emit.less(emit.index(1), parts->get());
  emit.when(shared, [&] {
    int64_t stride = 4 * space.partialFloats();
    Value partials = pointerArgument(ARG(partial));
    TileStorePartialOp::create(builder, loc, merged.getRow(), merged.getMax(), merged.getSum(),
                               emit.offset(partials, emit.mul(mySlot->get(), stride)), q, queries);
    emit.fenceDevice();
    emit.syncWarp();
    Value counter = emit.offset(pointerArgument(GPU_ARG(counters)),
                                emit.mul(emit.add(emit.mul(piece.rows.number, queries), q), 4));
    Variable arrived(emit, emit.word(0));
    emit.when(emit.equal(emit.lane(), emit.word(0)),
              [&] { arrived.set(emit.atomicAdd(counter, emit.word(1))); });
    Value before = emit.wide(emit.broadcast(arrived.get(), emit.word(0)));
    Value isLast = emit.equal(emit.add(before, 1), parts->get());
    finished.set(emit.select(isLast, emit.word(1), emit.word(0)));
    emit.when(isLast, [&] {
      emit.fenceDevice();
      auto all = TileMergePartialsOp::create(
          builder, loc, rowType, emit.f32(), emit.f32(), merged.getRow(),
          emit.offset(partials, emit.mul(firstSlot->get(), stride)), parts->get(), q, stride,
          queries);
      most.set(all.getMax());
      sum.set(all.getSum());
      emit.when(emit.equal(emit.lane(), emit.word(0)), [&] { emit.store(emit.word(0), counter); });
    });
  });
  emit.when(emit.equal(finished.get(), emit.word(1)), [&] {
    Value workspace = emit.offset(pointerArgument(ARG(query)),
                                  emit.mul(piece.rows.number, 4 * space.queryFloats()));
    auto normal =
        TileNormalizeOp::create(builder, loc, rowType, emit.f32(), emit.f32(), merged.getRow(),
                                most.get(), sum.get(), sinkOf(piece.rows, q, workspace));
    Value out = finishOutput(normal.getResult(), normal.getMass());
    storeOutput(piece.rows, q, out, emit.fadd(normal.getLse(), shiftOf(workspace, q)));
  });
}

/// How many parts a segment has that several teams share, or several chunks, and their slots. What
/// a team attends as a whole has one, and needs none of it.
void DecodeBuilder::placeParts(const Piece &piece) {
  WarpEmit &emit = warpEmit;
  Value one = emit.index(1), deterministic = emit.less(one, chunkUnits);
  parts.emplace(emit, one), firstSlot.emplace(emit, one), mySlot.emplace(emit, one);
  Value divided = emit.bitOr(emit.less(piece.segmentBegin, piece.begin),
                             emit.less(piece.end, piece.segmentEnd));
  emit.when(divided, [&] {
    Value units = emit.sub(piece.segmentEnd, piece.segmentBegin), segment = piece.rows.number;
    Value chunks = emit.div(emit.sub(emit.add(units, chunkUnits), one), chunkUnits);
    Value inSequence = emit.sub(segment, emit.mul(piece.rows.seq, heads));
    Value chunkBase = emit.add(emit.mul(emit.wide(planWord(arrays.chunks, piece.rows.seq)), heads),
                               emit.mul(inSequence, chunks));
    Value chunk = emit.div(emit.sub(piece.begin, piece.segmentBegin), chunkUnits);
    // With chunks of a unit the lists of chunks and units are the same.
    TeamDivision division(emit, emit.mul(unitsBefore(argument(ARG(batch))), heads), teams);
    Value firstTeam = division.teamOf(piece.segmentBegin);
    Value lastTeam = division.teamOf(emit.sub(piece.segmentEnd, one));
    Value teamsOf = emit.add(emit.sub(lastTeam, firstTeam), one);
    parts->set(emit.select(deterministic, chunks, teamsOf));
    firstSlot->set(emit.select(deterministic, chunkBase, emit.add(firstTeam, segment)));
    mySlot->set(emit.select(deterministic, emit.add(chunkBase, chunk), emit.add(team, segment)));
  });
}

/// Each warp of the team takes queries local, local + team_warps, ...
void DecodeBuilder::mergePiece(const Piece &piece) {
  WarpEmit &emit = warpEmit;
  loadConstantPlace(piece.rows.head);
  placeParts(piece);
  Variable q(emit, local);
  emit.whileTrue([&] { return emit.less(q.get(), piece.rows.rows); },
                 [&] {
                   mergeRow(piece, q.get());
                   q.set(emit.add(q.get(), teamWarps));
                 });
}

/// The piece that begins at unit `begin`; `seq` moves on to its sequence.
DecodeBuilder::Piece DecodeBuilder::locate(Value begin, Value end, Variable &seq) {
  WarpEmit &emit = warpEmit;
  Piece piece;
  piece.begin = begin;
  emit.whileTrue(
      [&] {
        Value ends = emit.mul(unitsBefore(emit.add(seq.get(), 1)), heads);
        return emit.less(ends, emit.add(piece.begin, 1));
      },
      [&] { seq.set(emit.add(seq.get(), 1)); });
  Value before = unitsBefore(seq.get());
  Value units = emit.sub(unitsBefore(emit.add(seq.get(), 1)), before);
  Value sequenceBegin = emit.mul(before, heads);
  // Both fit 32 bits, whose division is much the shorter.
  Value rest = emit.narrowWord(emit.sub(piece.begin, sequenceBegin));
  Value inSequence = emit.div(rest, emit.narrowWord(units));
  Value blocks = emit.narrowWord(argument(ARG(row_blocks))), head = emit.div(inSequence, blocks);
  Value block = emit.sub(inSequence, emit.mul(head, blocks)), wide = emit.wide(inSequence);
  piece.rows = segmentOf(emit.add(emit.mul(seq.get(), heads), wide), seq.get(), emit.wide(head),
                         emit.wide(block));
  piece.segmentBegin = emit.add(sequenceBegin, emit.mul(wide, units));
  piece.segmentEnd = emit.add(piece.segmentBegin, units);
  piece.length = lengthOf(seq.get());
  piece.firstUnit = emit.wide(planWord(arrays.firstUnits, seq.get()));
  Value inSegment = emit.narrowWord(emit.sub(piece.begin, piece.segmentBegin));
  Value chunkNumber = emit.wide(emit.div(inSegment, emit.narrowWord(chunkUnits)));
  Value chunkEnd = emit.add(piece.segmentBegin, emit.mul(emit.add(chunkNumber, 1), chunkUnits));
  // Chunks of one unit only divide the list: pieces run on to the end of the segment.
  Value cut = emit.select(emit.less(emit.index(1), chunkUnits), chunkEnd, piece.segmentEnd);
  piece.end = emit.min(emit.min(piece.segmentEnd, end), cut);
  return piece;
}

void DecodeBuilder::build() {
  WarpEmit &emit = warpEmit;
  loadTeam();
  emit.releaseNextKernel();
  int64_t tileBytes = ::kvq::buildRecord(record.getSpec()).tileBytes;
  int64_t ringBytes = schedule.stages * Ring::stageBytes(tileBytes);
  Value shared = emit.shared(), warp = emit.wide(emit.warp());
  Value partials = emit.offset(shared, schedule.warps * ringBytes);
  partialBase = emit.offset(partials, emit.mul(warp, 4 * space.warpWords()));
  Value barriers = emit.offset(partials, schedule.warps * 4 * space.warpWords());
  barriers = emit.offset(barriers, emit.mul(warp, Ring::barrierBytes(schedule.stages)));
  RingSource source{pointerArgument(ARG(pool)),
                    argument(ARG(page_stride)),
                    argument(ARG(head_stride)),
                    argument(ARG(page_tokens)),
                    heads,
                    argument(ARG(row_blocks)),
                    arrays.units,
                    arrays.lengths,
                    arrays.firstUnits,
                    [&](Value seq) { return pageIds(seq); },
                    tileBytes};
  Ring ring(emit, source, schedule.stages, emit.offset(shared, emit.mul(warp, ringBytes)),
            barriers);
  Value begin = emit.wide(planWord(arrays.teamUnit, team));
  Value end = emit.wide(planWord(arrays.teamUnit, emit.add(team, 1)));
  Variable seq(emit, emit.wide(planWord(arrays.teamSequence, team)));
  Variable at(emit, begin), nextUnit(emit, emit.add(begin, local));
  ring.start(nextUnit.get(), teamWarps, end, seq.get());
  // The queries come from the preceding kernel; what was read so far does not (prepare).
  emit.waitForPreviousKernel();
  emit.whileTrue([&] { return emit.less(at.get(), end); },
                 [&] {
                   Piece piece = locate(at.get(), end, seq);
                   attend(piece, ring, nextUnit);
                   syncTeam();
                   mergePiece(piece);
                   syncTeam();
                   at.set(piece.end);
                 });
}

} // namespace

void GpuKernelBuilder::decodeTeams() { DecodeBuilder(*this).build(); }

} // namespace mlir::kvq

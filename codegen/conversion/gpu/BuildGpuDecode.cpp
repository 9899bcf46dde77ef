// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// decode: a team of warps takes a contiguous part of the list of all units, and cuts it into pieces
// at the ends of sequences and KV heads (and of chunks, in deterministic splits). The warps of a
// team take the units of a piece in turn, each through its own ring; at the end of a piece they
// merge through shared memory, and where several teams share a sequence and KV head, the last one
// to arrive merges their results. Schedule: kernels-2.md section 2, kernels.md section 5.
#include "codegen/conversion/gpu/GpuKernelBuilder.h"
#include "codegen/conversion/gpu/Ring.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <optional>
#include <tuple>

#define ARG(field) offsetof(kvq_cpu_decode_args, field)
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
    Value seq, head, segment, length;
    Value segmentBegin, segmentEnd, begin, end;
  };

  void loadTeam();
  void attend(const Piece &piece, Ring &ring, Variable &nextUnit);
  std::pair<Value, Value> step(Value tiles, Value query, Value state, Value output, Value valid);
  std::pair<Value, Value> unit(Ring &ring, Value query, Value state, Value output, Value valid);
  Piece locate(Value begin, Value end, Variable &seq);
  void placeParts(const Piece &piece);
  void mergePiece(const Piece &piece);
  void mergeRow(const Piece &piece, Value q);
  void syncTeam();
  Value unitsBefore(Value seq) { return warpEmit.wide(planWord(arrays.units, seq)); }

  GpuWorkspace space;
  GpuSchedule schedule;
  Plan arrays;
  Value heads, teams, team, teamOfBlock, teamWarps, local, chunkUnits, partialBase;
  // What of a piece is merged through the workspace: the number of parts and their first slot.
  std::optional<Variable> parts, firstSlot, mySlot;
};

void DecodeBuilder::loadTeam() {
  WarpEmit &emit = warpEmit;
  arrays = planArrays();
  heads = argument(ARG(kv_heads)), teams = argument(GPU_ARG(teams));
  teamWarps = argument(GPU_ARG(team_warps)), chunkUnits = argument(GPU_ARG(chunk_units));
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

/// `schedule.tiles` tiles at `tiles`, of which the first `valid` tokens count (all without it).
std::pair<Value, Value> DecodeBuilder::step(Value tiles, Value query, Value state, Value output,
                                            Value valid) {
  OpBuilder &builder = emit.builder;
  Location loc = emit.loc;
  auto parameters = [&](TileSideKind side) -> Value {
    return TileLoadParamsOp::create(builder, loc, fragment(FragmentKind::params), tiles, valid,
                                    record, side, schedule.tiles);
  };
  Value keyParams = parameters(TileSideKind::key);
  Value dots = TileDotOp::create(builder, loc, fragment(FragmentKind::dots), tiles, query, record,
                                 queries, schedule.tiles);
  Value scores = TileScoreOp::create(builder, loc, fragment(FragmentKind::scores), dots, keyParams,
                                     query, valid, record, queries, schedule.tiles);
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
                                            Value valid) {
  int64_t tileBytes = ::kvq::buildRecord(record.getSpec()).tileBytes;
  Value tiles = ring.wait();
  for (int64_t tile = 0; tile < kUnit / 16; tile += schedule.tiles) {
    Value rest = valid && tile ? emit.sub(valid, emit.index(16 * tile)) : valid;
    std::tie(state, output) =
        step(emit.offset(tiles, tile * tileBytes), query, state, output, rest);
  }
  ring.release();
  return {state, output};
}

/// The units of the piece that are this warp's. The last unit of a sequence may be partly filled.
void DecodeBuilder::attend(const Piece &piece, Ring &ring, Variable &nextUnit) {
  WarpEmit &emit = warpEmit;
  OpBuilder &builder = emit.builder;
  Location loc = emit.loc;
  Value workspace =
      emit.offset(pointerArgument(ARG(query)), emit.mul(piece.segment, 4 * space.queryFloats()));
  Value query = TileLoadQueryOp::create(builder, loc, fragment(FragmentKind::query), workspace,
                                        record, queries);
  Value state =
      TileInitSoftmaxOp::create(builder, loc, fragment(FragmentKind::softmax), queries, record);
  Value output = TileInitOutputOp::create(builder, loc, fragment(FragmentKind::output), partialBase,
                                          record, queries);
  Value mine = nextUnit.get(), none = emit.index(0);
  Value ahead = emit.sub(emit.add(emit.sub(piece.end, mine), teamWarps), emit.index(1));
  Value count =
      emit.select(emit.less(mine, piece.end),
                  emit.wide(emit.div(emit.narrowWord(ahead), emit.narrowWord(teamWarps))), none);
  Value last = emit.add(mine, emit.mul(emit.sub(count, emit.index(1)), teamWarps));
  Value rest = emit.rem(piece.length, kUnit);
  Value partly = emit.bitAnd(emit.equal(last, emit.sub(piece.segmentEnd, emit.index(1))),
                             emit.bitAnd(emit.less(none, count), emit.less(none, rest)));
  Value full = emit.sub(count, emit.select(partly, emit.index(1), none));
  auto loop =
      scf::ForOp::create(builder, loc, none, full, emit.index(1), ValueRange{state, output});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    auto [next, sums] =
        unit(ring, query, loop.getRegionIterArg(0), loop.getRegionIterArg(1), Value());
    scf::YieldOp::create(builder, loc, ValueRange{next, sums});
  }
  Type types[] = {state.getType(), output.getType()};
  auto branch = scf::IfOp::create(builder, loc, types, partly, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&branch.getThenRegion().front());
    auto [next, sums] = unit(ring, query, loop.getResult(0), loop.getResult(1), rest);
    scf::YieldOp::create(builder, loc, ValueRange{next, sums});
    builder.setInsertionPointToStart(&branch.getElseRegion().front());
    scf::YieldOp::create(builder, loc, loop.getResults());
  }
  nextUnit.set(emit.add(mine, emit.mul(count, teamWarps)));
  TileFlushOp::create(builder, loc, branch.getResult(1), branch.getResult(0), partialBase, record,
                      queries);
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
                                emit.mul(emit.add(emit.mul(piece.segment, queries), q), 4));
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
    auto normal = TileNormalizeOp::create(builder, loc, rowType, emit.f32(), emit.f32(),
                                          merged.getRow(), most.get(), sum.get());
    Value out = finishOutput(normal.getResult(), normal.getMass());
    Value workspace =
        emit.offset(pointerArgument(ARG(query)), emit.mul(piece.segment, 4 * space.queryFloats()));
    storeOutput(piece.seq, piece.head, q, workspace, out, normal.getLse());
  });
}

/// How many parts a segment has that several teams share, or several chunks, and their slots. What
/// a team attends as a whole has one, and needs none of it.
void DecodeBuilder::placeParts(const Piece &piece) {
  WarpEmit &emit = warpEmit;
  Value one = emit.index(1), deterministic = emit.less(one, chunkUnits);
  parts.emplace(emit, one), firstSlot.emplace(emit, one), mySlot.emplace(emit, one);
  Value whole = emit.bitAnd(emit.equal(piece.begin, piece.segmentBegin),
                            emit.equal(piece.end, piece.segmentEnd));
  emit.whenElse(
      whole, [] {},
      [&] {
        Value units = emit.sub(piece.segmentEnd, piece.segmentBegin);
        Value chunks = emit.div(emit.sub(emit.add(units, chunkUnits), one), chunkUnits);
        Value total = emit.mul(unitsBefore(argument(ARG(batch))), heads);
        Value busy = emit.min(teams, total); // as plan divides the list
        auto teamOf = [&](Value unit) {
          return emit.div(emit.sub(emit.mul(emit.add(unit, one), busy), one), total);
        };
        Value firstTeam = teamOf(piece.segmentBegin);
        Value teamsOf = emit.add(emit.sub(teamOf(emit.sub(piece.segmentEnd, one)), firstTeam), one);
        Value chunkBase = emit.add(emit.mul(emit.wide(planWord(arrays.chunks, piece.seq)), heads),
                                   emit.mul(piece.head, chunks));
        Value chunk = emit.div(emit.sub(piece.begin, piece.segmentBegin), chunkUnits);
        parts->set(emit.select(deterministic, chunks, teamsOf));
        firstSlot->set(emit.select(deterministic, chunkBase, emit.add(firstTeam, piece.segment)));
        mySlot->set(
            emit.select(deterministic, emit.add(chunkBase, chunk), emit.add(team, piece.segment)));
      });
}

/// Each warp of the team takes queries local, local + team_warps, ...
void DecodeBuilder::mergePiece(const Piece &piece) {
  WarpEmit &emit = warpEmit;
  loadConstantPlace(piece.head);
  placeParts(piece);
  Variable q(emit, local);
  emit.whileTrue([&] { return emit.less(q.get(), emit.index(queries)); },
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
  piece.seq = seq.get();
  Value before = unitsBefore(piece.seq);
  Value units = emit.sub(unitsBefore(emit.add(piece.seq, 1)), before);
  Value sequenceBegin = emit.mul(before, heads);
  // Both fit 32 bits, whose division is much the shorter.
  Value rest = emit.narrowWord(emit.sub(piece.begin, sequenceBegin));
  piece.head = emit.wide(emit.div(rest, emit.narrowWord(units)));
  piece.segment = emit.add(emit.mul(piece.seq, heads), piece.head);
  piece.segmentBegin = emit.add(sequenceBegin, emit.mul(piece.head, units));
  piece.segmentEnd = emit.add(piece.segmentBegin, units);
  piece.length = emit.wide(
      emit.load(emit.i32(), emit.offset(pointerArgument(ARG(lengths)), emit.mul(piece.seq, 4))));
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
                    pointerArgument(ARG(block_table)),
                    argument(ARG(block_table_stride)),
                    pointerArgument(ARG(lengths)),
                    heads,
                    arrays.units,
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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Teams, their pieces, and how partial results become output rows (DecodeBuilder.h).
#include "codegen/conversion/gpu/DecodeBuilder.h"
#include "codegen/conversion/gpu/TeamDivision.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#define ARG(field) offsetof(kvq_decode_kernel_args, field)
#define GPU_ARG(field) offsetof(kvq_gpu_decode_args, field)

namespace mlir::kvq {

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
  loadConstantPlace<kvq_decode_kernel_args>(piece.rows.head);
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
  piece.quantized = quantizedOf(seq.get());
  piece.firstUnit = emit.wide(planWord(arrays.firstUnits, seq.get()));
  if (method.windowed())
    piece.window = windowUnits(piece.length, piece.quantized);
  Value inSegment = emit.narrowWord(emit.sub(piece.begin, piece.segmentBegin));
  Value chunkNumber = emit.wide(emit.div(inSegment, emit.narrowWord(chunkUnits)));
  Value chunkEnd = emit.add(piece.segmentBegin, emit.mul(emit.add(chunkNumber, 1), chunkUnits));
  // Chunks of one unit only divide the list: pieces run on to the end of the segment.
  Value cut = emit.select(emit.less(emit.index(1), chunkUnits), chunkEnd, piece.segmentEnd);
  piece.end = emit.min(emit.min(piece.segmentEnd, end), cut);
  return piece;
}

/// The unit of records, counted from the first of all, that the first unit of a segment would be: a
/// negative number where window rows come first.
Value DecodeBuilder::firstRecordUnit(Value seq) {
  Value first = warpEmit.wide(planWord(arrays.firstUnits, seq));
  if (!method.windowed())
    return first;
  WindowUnits window = windowUnits(lengthOf(seq), quantizedOf(seq));
  return emit.sub(first, emit.add(window.sink, window.recent));
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
  RingSource source{
      pointerArgument(ARG(pool)),
      argument(ARG(page_stride)),
      argument(ARG(head_stride)),
      argument(ARG(page_tokens)),
      heads,
      argument(ARG(row_blocks)),
      arrays.units,
      [&](Value seq) { return quantizedOf(seq); },
      [&](Value seq) { return firstRecordUnit(seq); },
      [&](Value seq) { return pageIds(tableFields<kvq_decode_kernel_args>(ARG(lengths)), seq); },
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

void GpuKernelBuilder::decodeTeams() { DecodeBuilder(*this).build(); }

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// plan and prepare. The plan: one block counts the units and chunks before each sequence and finds
// where each team begins, once per step for all layers.
#include "codegen/conversion/gpu/GpuKernelBuilder.h"
#include "codegen/conversion/gpu/TeamDivision.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#define ARG(field) offsetof(kvq_decode_kernel_args, field)
#define GPU_ARG(field) offsetof(kvq_gpu_decode_args, field)

namespace mlir::kvq {

GpuKernelBuilder::Plan GpuKernelBuilder::planArrays() {
  WarpEmit &emit = warpEmit;
  Value batch = argument(ARG(batch)), begins = emit.add(batch, 1);
  Value teams = emit.add(argument(GPU_ARG(teams)), 1);
  Plan plan;
  plan.units = pointerArgument(GPU_ARG(plan));
  plan.chunks = emit.offset(plan.units, emit.mul(begins, 4));
  plan.teamSequence = emit.offset(plan.chunks, emit.mul(begins, 4));
  plan.teamUnit = emit.offset(plan.teamSequence, emit.mul(teams, 4));
  plan.lengths = emit.offset(plan.teamUnit, emit.mul(teams, 4));
  plan.firstUnits = emit.offset(plan.lengths, emit.mul(batch, 4));
  plan.quantized = emit.offset(plan.firstUnits, emit.mul(batch, 4));
  return plan;
}

Value GpuKernelBuilder::lengthOf(Value seq) {
  return warpEmit.wide(planWord(planArrays().lengths, seq));
}

Value GpuKernelBuilder::quantizedOf(Value seq) {
  return method.windowed() ? warpEmit.wide(planWord(planArrays().quantized, seq)) : lengthOf(seq);
}

GpuKernelBuilder::WindowUnits GpuKernelBuilder::windowUnits(Value length, Value quantized) {
  WarpEmit &emit = warpEmit;
  Value unit = emit.index(KVQ_GPU_UNIT_TOKENS), zero = emit.index(0);
  auto upTo = [&](Value tokens) {
    return emit.div(emit.add(tokens, emit.sub(unit, emit.index(1))), unit);
  };
  Value end = emit.sub(length, emit.index(method.sink)), first = emit.div(quantized, unit);
  Value recent = emit.select(emit.less(quantized, end), emit.sub(upTo(end), first), zero);
  return {upTo(sinkTokens(length)), recent, first};
}

/// Clamps the length of a sequence, and finds the first unit that a query of it attends and how
/// many there are; i32.
Value GpuKernelBuilder::planSequence(const Plan &plan, Value seq) {
  WarpEmit &emit = warpEmit;
  Value zero = emit.index(0), given = KernelBuilder::lengthOf(seq);
  Value length = emit.min(given, argument(ARG(max_length)));
  length = emit.select(emit.less(length, zero), zero, length);
  emit.when(emit.bitOr(emit.less(given, length), emit.less(length, given)), [&] {
    Value faults = pointerArgument(GPU_ARG(faults));
    emit.store(emit.bitOr(emit.load(emit.i32(), faults), emit.word(1)), faults);
  });
  auto put = [&](Value value, Value array) {
    emit.store(emit.narrowWord(value), emit.offset(array, emit.mul(seq, 4)));
  };
  put(length, plan.lengths);
  Value quantized = length;
  if (method.windowed())
    put(quantized = KernelBuilder::quantizedOf(seq), plan.quantized);
  Segment segment = segmentOf(seq, seq, zero, zero);
  Value attended = emit.add(emit.sub(segment.tokens, emit.index(1)), argument(ARG(window)));
  Value first = emit.sub(emit.sub(length, attended), emit.index(method.sink));
  first = emit.select(emit.less(first, zero), zero, first);
  Value unit = emit.index(KVQ_GPU_UNIT_TOKENS), firstUnit = emit.div(first, unit);
  Value end = emit.div(emit.add(quantized, emit.sub(unit, emit.index(1))), unit);
  Value units = emit.select(emit.less(firstUnit, end), emit.sub(end, firstUnit), zero);
  if (method.windowed()) {
    WindowUnits window = windowUnits(length, quantized);
    units = emit.add(units, emit.add(window.sink, window.recent));
  }
  units = emit.select(emit.less(zero, segment.tokens), units, zero);
  put(firstUnit, plan.firstUnits);
  return emit.narrowWord(units);
}

/// The sum of `mine` over the lanes up to this one.
static Value scanLanes(WarpEmit &emit, Value mine) {
  Value sum = mine;
  for (int delta = 1; delta < 32; delta *= 2) {
    Value other = emit.shuffleUp(sum, delta);
    Value inside = emit.less(emit.word(delta - 1), emit.lane());
    sum = emit.add(sum, emit.select(inside, other, emit.word(0)));
  }
  return sum;
}

/// Units and chunks before each sequence, by the lanes of one warp: 32 sequences at a time.
void GpuKernelBuilder::planSequences(const Plan &plan) {
  WarpEmit &emit = warpEmit;
  Value lane = emit.wide(emit.lane()), batch = argument(ARG(batch));
  Value chunk = emit.narrowWord(argument(GPU_ARG(chunk_units)));
  Variable unitsBefore(emit, emit.word(0)), chunksBefore(emit, emit.word(0));
  emit.loop(emit.index(0), emit.add(batch, 1), 32, [&](Value first) {
    Value seq = emit.add(first, lane);
    Variable units(emit, emit.word(0));
    emit.when(emit.less(seq, batch), [&] { units.set(planSequence(plan, seq)); });
    Value mine = units.get();
    Value pieces = emit.div(emit.add(mine, emit.sub(chunk, emit.word(1))), chunk);
    Value unitSum = scanLanes(emit, mine), chunkSum = scanLanes(emit, pieces);
    emit.when(emit.less(seq, emit.add(batch, 1)), [&] {
      Value at = emit.mul(seq, 4);
      emit.store(emit.add(unitsBefore.get(), emit.sub(unitSum, mine)), emit.offset(plan.units, at));
      emit.store(emit.add(chunksBefore.get(), emit.sub(chunkSum, pieces)),
                 emit.offset(plan.chunks, at));
    });
    unitsBefore.set(emit.add(unitsBefore.get(), emit.broadcast(unitSum, emit.word(31))));
    chunksBefore.set(emit.add(chunksBefore.get(), emit.broadcast(chunkSum, emit.word(31))));
  });
}

Value GpuKernelBuilder::headsAndBlocks() {
  return warpEmit.mul(argument(ARG(kv_heads)), argument(ARG(row_blocks)));
}

/// Sequence and unit at which the chunk `chunk` of the list begins, for team `team`.
void GpuKernelBuilder::placeTeam(const Plan &plan, Value team, Value chunk) {
  WarpEmit &emit = warpEmit;
  Value batch = argument(ARG(batch)), heads = headsAndBlocks();
  // The last sequence that begins at or before the chunk: low begins there, high does not.
  Variable low(emit, emit.index(0)), high(emit, emit.add(batch, 1));
  auto begin = [&](Value array, Value seq) {
    return emit.mul(emit.wide(planWord(array, seq)), heads);
  };
  emit.whileTrue([&] { return emit.less(emit.add(low.get(), 1), high.get()); },
                 [&] {
                   Value middle = emit.div(emit.add(low.get(), high.get()), 2);
                   Value after = emit.less(chunk, begin(plan.chunks, middle));
                   high.set(emit.select(after, middle, high.get()));
                   low.set(emit.select(after, low.get(), middle));
                 });
  Value seq = low.get();
  Variable unit(emit, begin(plan.units, seq));
  emit.when(emit.less(seq, batch), [&] {
    auto count = [&](Value array) {
      return emit.wide(emit.sub(planWord(array, emit.add(seq, 1)), planWord(array, seq)));
    };
    Value rest = emit.sub(chunk, begin(plan.chunks, seq)), chunksOfHead = count(plan.chunks);
    Value head = emit.div(rest, chunksOfHead), inHead = emit.rem(rest, chunksOfHead);
    Value units = emit.add(emit.mul(head, count(plan.units)),
                           emit.mul(inHead, argument(GPU_ARG(chunk_units))));
    unit.set(emit.add(unit.get(), units));
  });
  emit.store(emit.narrowWord(seq), emit.offset(plan.teamSequence, emit.mul(team, 4)));
  emit.store(emit.narrowWord(unit.get()), emit.offset(plan.teamUnit, emit.mul(team, 4)));
}

void GpuKernelBuilder::plan() {
  WarpEmit &emit = warpEmit;
  Plan plan = planArrays();
  Value batch = argument(ARG(batch)), teams = argument(GPU_ARG(teams));
  Value thread = emit.wide(emit.thread()), threads = emit.wide(emit.blockThreads());
  auto forEach = [&](Value count, function_ref<void(Value)> body) {
    Variable index(emit, thread);
    emit.whileTrue([&] { return emit.less(index.get(), count); },
                   [&] {
                     body(index.get());
                     index.set(emit.add(index.get(), threads));
                   });
  };
  Value counters = pointerArgument(GPU_ARG(counters)), heads = headsAndBlocks();
  forEach(emit.mul(emit.mul(batch, heads), queries), [&](Value index) {
    emit.store(emit.word(0), emit.offset(counters, emit.mul(index, 4)));
  });
  emit.when(emit.equal(emit.warp(), emit.word(0)), [&] { planSequences(plan); });
  emit.syncBlock();
  TeamDivision division(emit, emit.mul(emit.wide(planWord(plan.chunks, batch)), heads), teams);
  forEach(emit.add(teams, 1), [&](Value team) { placeTeam(plan, team, division.begin(team)); });
}

void GpuKernelBuilder::prepareWarps() {
  WarpEmit &emit = warpEmit;
  // Only after the wait may the next kernel begin: what it reads before its own wait, page table
  // and full pages, is then complete.
  emit.waitForPreviousKernel();
  emit.releaseNextKernel();
  Value number = gridWarp();
  Value segments = emit.mul(argument(ARG(batch)), headsAndBlocks());
  emit.when(emit.less(number, emit.mul(segments, queries)), [&] {
    Segment segment = segmentAt(emit.div(number, queries));
    Value q = emit.rem(number, queries);
    loadConstantPlace<kvq_decode_kernel_args>(segment.head);
    Value workspace =
        emit.offset(pointerArgument(ARG(query)),
                    emit.mul(segment.number, 4 * gpuWorkspaceOf(method).queryFloats()));
    prepareRow(segment, q, workspace);
    Value empty = emit.equal(lengthOf(segment.seq), emit.index(0));
    emit.when(emit.bitAnd(emit.less(q, segment.rows), empty), [&] {
      Value zero = TileZeroRowOp::create(emit.builder, emit.loc, row(method.value.record.dim));
      storeOutput(segment, q, zero, emit.realBits(emit.f32(), 0xff800000));
    });
  });
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// append, plan and prepare. The plan: one block counts the units and chunks before each sequence
// and finds where each team begins, once per step for all layers.
#include "codegen/conversion/gpu/GpuKernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#define ARG(field) offsetof(kvq_cpu_decode_args, field)
#define GPU_ARG(field) offsetof(kvq_gpu_decode_args, field)

namespace mlir::kvq {

Value GpuKernelBuilder::gridWarp() {
  WarpEmit &emit = warpEmit;
  Value warps = emit.shr(emit.blockThreads(), 5);
  return emit.wide(emit.add(emit.mul(emit.block(), warps), emit.warp()));
}

void GpuKernelBuilder::appendWarps() {
  WarpEmit &emit = warpEmit;
  item = gridWarp();
  Value items = emit.mul(argument(offsetof(kvq_cpu_append_args, tokens)),
                         argument(offsetof(kvq_cpu_append_args, kv_heads)));
  emit.when(emit.less(item, items), [&] { append(); });
}

GpuKernelBuilder::Plan GpuKernelBuilder::planArrays() {
  WarpEmit &emit = warpEmit;
  Value batch = emit.add(argument(ARG(batch)), 1);
  Value teams = emit.add(argument(GPU_ARG(teams)), 1);
  Plan plan;
  plan.units = pointerArgument(GPU_ARG(plan));
  plan.chunks = emit.offset(plan.units, emit.mul(batch, 4));
  plan.teamSequence = emit.offset(plan.chunks, emit.mul(batch, 4));
  plan.teamUnit = emit.offset(plan.teamSequence, emit.mul(teams, 4));
  return plan;
}

/// Units and chunks before each sequence, by the lanes of one warp: 32 sequences at a time.
static void scanSequences(WarpEmit &emit, Value lengths, Value batch, Value chunkUnits, Value units,
                          Value chunks) {
  Value lane = emit.wide(emit.lane());
  Variable unitsBefore(emit, emit.word(0)), chunksBefore(emit, emit.word(0));
  auto scan = [&](Value mine) {
    Value sum = mine;
    for (int delta = 1; delta < 32; delta *= 2) {
      Value other = emit.shuffleUp(sum, delta);
      Value inside = emit.less(emit.word(delta - 1), emit.lane());
      sum = emit.add(sum, emit.select(inside, other, emit.word(0)));
    }
    return sum;
  };
  emit.loop(emit.index(0), emit.add(batch, 1), 32, [&](Value first) {
    Value seq = emit.add(first, lane), exists = emit.less(seq, batch);
    Value last =
        emit.select(emit.less(batch, emit.index(1)), emit.index(0), emit.sub(batch, emit.index(1)));
    Variable length(emit, emit.word(0));
    emit.when(exists, [&] {
      length.set(emit.load(emit.i32(), emit.offset(lengths, emit.mul(emit.min(seq, last), 4))));
    });
    Value mine = emit.div(emit.add(length.get(), emit.word(KVQ_GPU_UNIT_TOKENS - 1)),
                          emit.word(KVQ_GPU_UNIT_TOKENS));
    Value chunk = emit.narrowWord(chunkUnits);
    Value pieces = emit.div(emit.add(mine, emit.sub(chunk, emit.word(1))), chunk);
    Value unitSum = scan(mine), chunkSum = scan(pieces);
    emit.when(emit.less(seq, emit.add(batch, 1)), [&] {
      Value at = emit.mul(seq, 4);
      emit.store(emit.add(unitsBefore.get(), emit.sub(unitSum, mine)), emit.offset(units, at));
      emit.store(emit.add(chunksBefore.get(), emit.sub(chunkSum, pieces)), emit.offset(chunks, at));
    });
    unitsBefore.set(emit.add(unitsBefore.get(), emit.broadcast(unitSum, emit.word(31))));
    chunksBefore.set(emit.add(chunksBefore.get(), emit.broadcast(chunkSum, emit.word(31))));
  });
}

void GpuKernelBuilder::plan() {
  WarpEmit &emit = warpEmit;
  Plan plan = planArrays();
  Value batch = argument(ARG(batch)), heads = argument(ARG(kv_heads));
  Value chunkUnits = argument(GPU_ARG(chunk_units)), teams = argument(GPU_ARG(teams));
  Value thread = emit.wide(emit.thread()), threads = emit.wide(emit.blockThreads());
  auto forEach = [&](Value count, function_ref<void(Value)> body) {
    Variable index(emit, thread);
    emit.whileTrue([&] { return emit.less(index.get(), count); },
                   [&] {
                     body(index.get());
                     index.set(emit.add(index.get(), threads));
                   });
  };
  Value counters = pointerArgument(GPU_ARG(counters));
  forEach(emit.mul(emit.mul(batch, heads), queries), [&](Value index) {
    emit.store(emit.word(0), emit.offset(counters, emit.mul(index, 4)));
  });
  emit.when(emit.equal(emit.warp(), emit.word(0)), [&] {
    scanSequences(emit, pointerArgument(ARG(lengths)), batch, chunkUnits, plan.units, plan.chunks);
  });
  emit.syncBlock();
  Value total = emit.mul(emit.wide(planWord(plan.chunks, batch)), heads);
  // No more teams than chunks get one, so that those of a sequence follow one another.
  Value busy = emit.min(teams, total);
  Value divisor = emit.select(emit.less(busy, emit.index(1)), emit.index(1), busy);
  forEach(emit.add(teams, 1), [&](Value team) {
    Value chunk = emit.div(emit.mul(total, emit.min(team, busy)), divisor);
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
    Value seq = low.get(), isEnd = emit.less(emit.sub(batch, emit.index(1)), seq);
    Variable unit(emit, begin(plan.units, seq));
    emit.whenElse(
        isEnd, [] {},
        [&] {
          auto count = [&](Value array) {
            Value next = planWord(array, emit.add(seq, 1));
            return emit.wide(emit.sub(next, planWord(array, seq)));
          };
          Value rest = emit.sub(chunk, begin(plan.chunks, seq)), chunksOfHead = count(plan.chunks);
          Value head = emit.div(rest, chunksOfHead), inHead = emit.rem(rest, chunksOfHead);
          Value units = emit.add(emit.mul(head, count(plan.units)), emit.mul(inHead, chunkUnits));
          unit.set(emit.add(unit.get(), units));
        });
    emit.store(emit.narrowWord(seq), emit.offset(plan.teamSequence, emit.mul(team, 4)));
    emit.store(emit.narrowWord(unit.get()), emit.offset(plan.teamUnit, emit.mul(team, 4)));
  });
}

void GpuKernelBuilder::prepareWarps() {
  WarpEmit &emit = warpEmit;
  // Only after the wait may the next kernel begin: what it reads before its own wait, page table
  // and full pages, is then complete.
  emit.waitForPreviousKernel();
  emit.releaseNextKernel();
  Value number = gridWarp(), heads = argument(ARG(kv_heads));
  Value pairs = emit.mul(argument(ARG(batch)), heads);
  emit.when(emit.less(number, emit.mul(pairs, queries)), [&] {
    Value pair = emit.div(number, queries), q = emit.rem(number, queries);
    Value seq = emit.div(pair, heads), head = emit.rem(pair, heads);
    loadConstantPlace(head);
    Value workspace = emit.offset(pointerArgument(ARG(query)),
                                  emit.mul(pair, 4 * gpuWorkspaceOf(method).queryFloats()));
    prepareQuery(seq, head, q, workspace);
    Value length =
        emit.load(emit.i32(), emit.offset(pointerArgument(ARG(lengths)), emit.mul(seq, 4)));
    emit.when(emit.equal(length, emit.word(0)), [&] {
      Value zero = TileZeroRowOp::create(emit.builder, emit.loc, row(method.value.record.dim));
      storeOutput(seq, head, q, Value(), zero, emit.realBits(emit.f32(), 0xff800000));
    });
  });
}

} // namespace mlir::kvq

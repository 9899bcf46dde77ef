// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/gpu/Ring.h"

#include "kvq/kernel_abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::kvq {

constexpr int64_t kUnit = KVQ_GPU_UNIT_TOKENS;

Ring::Ring(WarpEmit &emit, const RingSource &source, int64_t stages, Value memory, Value barriers)
    : emit(emit), source(source), stages(stages), memory(memory), barriers(barriers),
      cursor(emit, emit.index(0)), read(emit, emit.index(0)), windowBegin(emit, emit.index(0)),
      readStage(emit, emit.word(0)), phase(emit, emit.word(0)), now(emit), next(emit) {
  Value page = emit.narrowWord(source.pageTokens), unit = emit.word(kUnit);
  copies = emit.select(emit.less(page, unit), emit.div(unit, page), emit.word(1));
  unitsOfWindow = emit.div(emit.word(32), copies);
  laneUnit = emit.div(emit.lane(), copies);
  lanePart = emit.sub(emit.lane(), emit.mul(laneUnit, copies));
  laneTarget = emit.mul(emit.shr(emit.mul(lanePart, page), 4), emit.word(source.tileBytes));
  if (emit.chip.bulkCopy)
    initBarriers();
}

void Ring::initBarriers() {
  emit.when(emit.equal(emit.lane(), emit.word(0)), [&] {
    for (int64_t stage = 0; stage < stages; ++stage)
      emit.initBarrier(emit.sharedWord(emit.offset(barriers, 8 * stage)));
    emit.fenceBarrierInit();
  });
  emit.syncWarp();
}

/// The copy that this lane holds of the units from `firstUnit` (a number of the warp's own) on. All
/// counts of units and tokens fit 32 bits.
void Ring::fill(Window &window, Value firstUnit) {
  Value flat = emit.add(first, emit.mul(emit.add(firstUnit, emit.wide(laneUnit)), step));
  window.bytes.set(emit.word(0));
  emit.when(emit.less(flat, end), [&] {
    auto before = [&](Value seq) {
      Value word = emit.load(emit.i32(), emit.offset(source.unitsBefore, emit.mul(seq, 4)));
      return emit.wide(word);
    };
    emit.whileTrue(
        [&] {
          Value ends = emit.mul(before(emit.add(cursor.get(), 1)), source.heads);
          return emit.less(ends, emit.add(flat, 1));
        },
        [&] { cursor.set(emit.add(cursor.get(), 1)); });
    Value seq = cursor.get(), begin = before(seq);
    Value units = emit.narrowWord(emit.sub(before(emit.add(seq, 1)), begin));
    Value rest = emit.narrowWord(emit.sub(flat, emit.mul(begin, source.heads)));
    Value segment = emit.div(rest, units), inSegment = emit.sub(rest, emit.mul(segment, units));
    Value unit = emit.add(inSegment, emit.narrowWord(source.firstUnit(seq)));
    // A unit below 0 has no tokens.
    Value length = emit.select(emit.less(unit, emit.word(0)), emit.word(int64_t(INT32_MIN)),
                               emit.narrowWord(source.tokens(seq)));
    Value head = emit.div(segment, emit.narrowWord(source.rowBlocks));
    Value token = emit.mul(unit, emit.word(kUnit)), page = emit.narrowWord(source.pageTokens);
    auto tileBytes = [&](Value tokens) { // of the tiles that hold `tokens` tokens, at least 0
      Value held = emit.select(emit.less(tokens, emit.word(0)), emit.word(0), tokens);
      return emit.mul(emit.shr(emit.add(held, emit.word(15)), 4), emit.word(source.tileBytes));
    };
    Value left = emit.sub(length, token);
    window.unitBytes.set(tileBytes(emit.min(left, emit.word(kUnit))));
    Value start = emit.add(token, emit.mul(lanePart, page));
    Value bytes = tileBytes(emit.min(emit.sub(length, start), emit.min(page, emit.word(kUnit))));
    window.bytes.set(bytes);
    emit.when(emit.less(emit.word(0), bytes), [&] {
      Value column = emit.div(start, page), inPage = emit.sub(start, emit.mul(column, page));
      Value entry = emit.offset(source.pageIds(seq), emit.mul(emit.wide(column), 4));
      Value id = emit.wide(emit.load(emit.i32(), entry));
      Value at =
          emit.add(emit.mul(id, source.pageStride), emit.mul(emit.wide(head), source.headStride));
      at = emit.add(at, emit.mul(emit.wide(emit.shr(inPage, 4)), source.tileBytes));
      window.address.set(LLVM::PtrToIntOp::create(emit.builder, emit.loc, emit.i64(),
                                                  emit.offset(source.pool, at)));
    });
  });
}

void Ring::issueBulk(Value holds, Value stage) {
  Value barrier = emit.add(emit.sharedWord(barriers), emit.mul(stage, emit.word(8)));
  emit.when(emit.bitAnd(holds, emit.equal(lanePart, emit.word(0))),
            [&] { emit.expectBytes(barrier, now.unitBytes.get()); });
  Value stageAt = emit.mul(stage, emit.word(stageBytes(source.tileBytes)));
  Value target = emit.add(emit.sharedWord(memory), emit.add(stageAt, laneTarget));
  Value some = emit.less(emit.word(0), now.bytes.get());
  emit.when(emit.bitAnd(holds, some),
            [&] { emit.bulkCopy(target, now.address.get(), now.bytes.get(), barrier); });
}

/// All lanes copy 16 bytes each; the sources come from the lanes that hold them.
void Ring::issueGroups(Value unit, Value stage) {
  Value slot = emit.mul(emit.narrowWord(emit.sub(unit, windowBegin.get())), copies);
  Value stageAt = emit.mul(stage, emit.word(stageBytes(source.tileBytes)));
  Variable part(emit, emit.word(0));
  emit.whileTrue([&] { return emit.less(part.get(), copies); },
                 [&] {
                   Value owner = emit.add(slot, part.get()), address = now.address.get();
                   Value low = emit.broadcast(emit.narrowWord(address), owner);
                   Value high = emit.broadcast(emit.narrowWord(emit.shr(address, 32)), owner);
                   Value bytes = emit.broadcast(now.bytes.get(), owner);
                   Value into = emit.broadcast(laneTarget, owner);
                   Value lowWide = emit.bitAnd(emit.wide(low), emit.index(0xffffffff));
                   Value from = emit.bitOr(emit.shl(emit.wide(high), 32), lowWide);
                   Value target = emit.add(emit.sharedWord(memory), emit.add(stageAt, into));
                   copyBytes(target, from, bytes);
                   part.set(emit.add(part.get(), emit.word(1)));
                 });
}

/// 16 bytes a lane and round.
void Ring::copyBytes(Value target, Value from, Value bytes) {
  Variable at(emit, emit.mul(emit.lane(), emit.word(16)));
  emit.whileTrue([&] { return emit.less(at.get(), bytes); },
                 [&] {
                   emit.copy16(emit.add(target, at.get()), emit.add(from, emit.wide(at.get())));
                   at.set(emit.add(at.get(), emit.word(512)));
                 });
}

/// Starts the copies of `unit` (a number of the warp's own), if there is such a unit.
void Ring::issue(Value unit) {
  Value stage = emit.narrowWord(emit.rem(unit, stages));
  Value exists = emit.less(emit.add(first, emit.mul(unit, step)), end);
  emit.when(exists, [&] {
    Value window = emit.wide(unitsOfWindow);
    emit.when(emit.less(emit.sub(window, emit.index(1)), emit.sub(unit, windowBegin.get())), [&] {
      windowBegin.set(emit.add(windowBegin.get(), window));
      now.address.set(next.address.get());
      now.bytes.set(next.bytes.get());
      now.unitBytes.set(next.unitBytes.get());
      fill(next, emit.add(windowBegin.get(), window));
    });
    if (emit.chip.bulkCopy) {
      Value slot = emit.narrowWord(emit.sub(unit, windowBegin.get()));
      issueBulk(emit.equal(laneUnit, slot), stage);
    } else {
      issueGroups(unit, stage);
    }
  });
  // A group is committed also where nothing was copied: waits count groups.
  if (!emit.chip.bulkCopy)
    emit.commitCopies();
}

void Ring::start(Value firstUnit, Value unitStep, Value unitEnd, Value sequence) {
  first = firstUnit, step = unitStep, end = unitEnd;
  cursor.set(sequence);
  fill(now, emit.index(0));
  fill(next, emit.wide(unitsOfWindow));
  for (int64_t stage = 0; stage < stages; ++stage)
    issue(emit.index(stage));
}

Value Ring::wait() {
  Value stage = readStage.get();
  if (emit.chip.bulkCopy) {
    Value barrier = emit.add(emit.sharedWord(barriers), emit.mul(stage, emit.word(8)));
    emit.waitBarrier(barrier, phase.get());
  } else {
    emit.waitCopies(static_cast<int>(stages) - 1);
    emit.syncWarp();
  }
  return emit.offset(memory, emit.wide(emit.mul(stage, emit.word(stageBytes(source.tileBytes)))));
}

void Ring::release() {
  emit.syncWarp();
  issue(emit.add(read.get(), stages));
  read.set(emit.add(read.get(), 1));
  Value following = emit.add(readStage.get(), emit.word(1));
  Value wraps = emit.equal(following, emit.word(stages));
  readStage.set(emit.select(wraps, emit.word(0), following));
  Value flipped = emit.sub(emit.word(1), phase.get());
  phase.set(emit.select(wraps, flipped, phase.get()));
}

} // namespace mlir::kvq

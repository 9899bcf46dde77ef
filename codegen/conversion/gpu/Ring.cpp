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
  Value unit = emit.index(kUnit);
  Value small = emit.less(source.pageTokens, unit);
  copies = emit.select(small, emit.div(unit, source.pageTokens), emit.index(1));
  unitsOfWindow = emit.div(emit.index(32), copies);
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

/// The copy that this lane holds of the units from `firstUnit` (a number of the warp's own) on.
void Ring::fill(Window &window, Value firstUnit) {
  Value lane = emit.wide(emit.lane());
  Value number = emit.add(firstUnit, emit.div(lane, copies)), part = emit.rem(lane, copies);
  Value flat = emit.add(first, emit.mul(number, step));
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
    Value perHead = emit.sub(before(emit.add(seq, 1)), begin);
    Value rest = emit.narrowWord(emit.sub(flat, emit.mul(begin, source.heads)));
    Value units = emit.narrowWord(perHead);
    Value head = emit.wide(emit.div(rest, units)), unit = emit.wide(emit.rem(rest, units));
    Value length = emit.wide(emit.load(emit.i32(), emit.offset(source.lengths, emit.mul(seq, 4))));
    Value token = emit.mul(unit, kUnit);
    auto tileBytes = [&](Value tokens) { // of the tiles that hold `tokens` tokens, at least 0
      Value held = emit.select(emit.less(tokens, emit.index(0)), emit.index(0), tokens);
      return emit.mul(emit.div(emit.add(held, 15), 16), source.tileBytes);
    };
    Value left = emit.sub(length, token);
    window.unitBytes.set(emit.narrowWord(tileBytes(emit.min(left, emit.index(kUnit)))));
    Value start = emit.add(token, emit.mul(part, source.pageTokens));
    Value most = emit.min(source.pageTokens, emit.index(kUnit));
    Value bytes = tileBytes(emit.min(emit.sub(length, start), most));
    window.bytes.set(emit.narrowWord(bytes));
    emit.when(emit.less(emit.index(0), bytes), [&] {
      Value entry = emit.add(emit.mul(seq, source.blockTableStride),
                             emit.mul(emit.div(start, source.pageTokens), 4));
      Value page = emit.wide(emit.load(emit.i32(), emit.offset(source.blockTable, entry)));
      Value at = emit.add(emit.mul(page, source.pageStride), emit.mul(head, source.headStride));
      at = emit.add(at,
                    emit.mul(emit.div(emit.rem(start, source.pageTokens), 16), source.tileBytes));
      window.address.set(LLVM::PtrToIntOp::create(emit.builder, emit.loc, emit.i64(),
                                                  emit.offset(source.pool, at)));
    });
  });
}

void Ring::issueBulk(Value holds, Value stage, Value part) {
  Value barrier = emit.add(emit.sharedWord(barriers), emit.mul(stage, emit.word(8)));
  emit.when(emit.bitAnd(holds, emit.equal(part, emit.index(0))),
            [&] { emit.expectBytes(barrier, now.unitBytes.get()); });
  Value into = emit.mul(emit.div(emit.mul(part, source.pageTokens), 16), source.tileBytes);
  Value target = emit.add(
      emit.sharedWord(memory),
      emit.add(emit.mul(stage, emit.word(stageBytes(source.tileBytes))), emit.narrowWord(into)));
  Value some = emit.less(emit.word(0), now.bytes.get());
  emit.when(emit.bitAnd(holds, some),
            [&] { emit.bulkCopy(target, now.address.get(), now.bytes.get(), barrier); });
}

/// All lanes copy 16 bytes each; the sources come from the lanes that hold them.
void Ring::issueGroups(Value unit, Value stage) {
  Value slot = emit.mul(emit.sub(unit, windowBegin.get()), copies);
  Variable part(emit, emit.index(0));
  emit.whileTrue([&] { return emit.less(part.get(), copies); },
                 [&] {
                   Value owner = emit.narrowWord(emit.add(slot, part.get()));
                   Value address = now.address.get();
                   Value low = emit.broadcast(emit.narrowWord(address), owner);
                   Value high = emit.broadcast(emit.narrowWord(emit.shr(address, 32)), owner);
                   Value bytes = emit.broadcast(now.bytes.get(), owner);
                   Value lowWide = emit.bitAnd(emit.wide(low), emit.index(0xffffffff));
                   Value from = emit.bitOr(emit.shl(emit.wide(high), 32), lowWide);
                   Value into = emit.mul(emit.div(emit.mul(part.get(), source.pageTokens), 16),
                                         source.tileBytes);
                   Value target =
                       emit.add(emit.sharedWord(memory),
                                emit.add(emit.mul(stage, emit.word(stageBytes(source.tileBytes))),
                                         emit.narrowWord(into)));
                   Variable at(emit, emit.mul(emit.lane(), emit.word(16)));
                   emit.whileTrue([&] { return emit.less(at.get(), bytes); },
                                  [&] {
                                    emit.copy16(emit.add(target, at.get()),
                                                emit.add(from, emit.wide(at.get())));
                                    at.set(emit.add(at.get(), emit.word(512)));
                                  });
                   part.set(emit.add(part.get(), 1));
                 });
}

/// Starts the copies of `unit` (a number of the warp's own), if there is such a unit.
void Ring::issue(Value unit) {
  Value stage = emit.narrowWord(emit.rem(unit, stages));
  Value exists = emit.less(emit.add(first, emit.mul(unit, step)), end);
  emit.when(exists, [&] {
    emit.when(emit.less(emit.sub(unitsOfWindow, emit.index(1)), emit.sub(unit, windowBegin.get())),
              [&] {
                windowBegin.set(emit.add(windowBegin.get(), unitsOfWindow));
                now.address.set(next.address.get());
                now.bytes.set(next.bytes.get());
                now.unitBytes.set(next.unitBytes.get());
                fill(next, emit.add(windowBegin.get(), unitsOfWindow));
              });
    if (emit.chip.bulkCopy) {
      Value lane = emit.wide(emit.lane());
      Value slot = emit.sub(unit, windowBegin.get());
      Value holds = emit.equal(emit.div(lane, copies), slot);
      issueBulk(holds, stage, emit.rem(lane, copies));
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
  fill(next, unitsOfWindow);
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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ring of a warp: stages in shared memory, each one unit of 64 tokens of one segment.
// The warp walks units first, first + step, ... of the list of all units, by (sequence, KV head,
// row block, unit), and reads ahead over the ends of sequences. Each lane holds the source of one
// copy of the next units; the lane that holds it issues it.
#pragma once

#include "codegen/conversion/gpu/WarpEmit.h"

#include <functional>

namespace mlir::kvq {

/// What the ring must know of the cache; i64 unless said.
struct RingSource {
  Value pool, pageStride, headStride, pageTokens;
  Value heads, rowBlocks; ///< KV heads times row blocks; row blocks
  Value unitsBefore;      ///< i32 array of the plan, by sequence
  // Of a sequence: tokens in records; the unit of records that the first unit of a segment is,
  // below 0 where other units, of which nothing is copied, come first; where its page ids begin.
  std::function<Value(Value)> tokens, firstUnit, pageIds;
  int64_t tileBytes;
};

class Ring {
public:
  Ring(WarpEmit &emit, const RingSource &source, int64_t stages, Value memory, Value barriers);

  /// Bytes of a stage, and of the barriers of a ring.
  static int64_t stageBytes(int64_t tileBytes) { return 4 * tileBytes; }
  static int64_t barrierBytes(int64_t stages) { return 8 * stages; }

  /// Fills the stages. Units lie below `end`; `sequence` is that of unit `first`.
  void start(Value first, Value step, Value end, Value sequence);
  /// The address of the next unit, once it has arrived.
  Value wait();
  /// Gives the stage back, to be filled with the unit `stages` on.
  void release();

private:
  /// Sources of the copies of 32 lanes.
  struct Window {
    Variable address, bytes, unitBytes;
    explicit Window(WarpEmit &emit)
        : address(emit, emit.index(0)), bytes(emit, emit.word(0)), unitBytes(emit, emit.word(0)) {}
  };

  void fill(Window &window, Value firstUnit);
  void issue(Value unit);
  void issueBulk(Value holds, Value stage);
  void issueGroups(Value unit, Value stage);
  void copyBytes(Value target, Value from, Value bytes);
  void initBarriers();

  WarpEmit &emit;
  RingSource source;
  int64_t stages;
  Value memory, barriers; // generic addresses
  Value first, step, end; // set by start
  // i32, made once: copies of a unit, units of a window; of this lane's copy the unit in the
  // window, the part of the unit, and where it goes in a stage.
  Value copies, unitsOfWindow, laneUnit, lanePart, laneTarget;
  Variable cursor;            // this lane's sequence
  Variable read, windowBegin; // units taken; first unit of `now`
  Variable readStage, phase;  // i32
  Window now, next;
};

} // namespace mlir::kvq

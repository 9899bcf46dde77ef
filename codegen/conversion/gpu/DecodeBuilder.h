// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// decode on a GPU: a team of warps takes a contiguous part of the list of all units, and cuts it
// into pieces at the ends of segments (and of chunks, in deterministic splits). The warps of a team
// take the units of a piece in turn, each through its own ring (BuildGpuAttend.cpp); at the end of
// a piece they merge through shared memory, and where several teams share a segment, the last one
// to arrive merges their results (BuildGpuDecode.cpp). Schedule: kernels-2.md section 2, kernels.md
// section 5.
#pragma once

#include "codegen/conversion/gpu/GpuKernelBuilder.h"
#include "codegen/conversion/gpu/Ring.h"

#include <optional>

namespace mlir::kvq {

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
    Value length, quantized; ///< of the sequence
    Value firstUnit;         ///< unit of its records with which these begin in the segment
    WindowUnits window;      ///< of formats with windows
    Value segmentBegin, segmentEnd, begin, end;
  };
  /// The warp's units of a piece, counted from its next: all rows attend all tokens of those from
  /// `whole` up to `wholeEnd`.
  struct Share {
    Value count, window, whole, wholeEnd; ///< those before `window` are of window rows
  };

  void loadTeam();
  /// What a step needs to know of tokens that not all rows attend: how many of the unit there are,
  /// the position of its first, and the bounds of the rows.
  struct Limits {
    Value valid, position, bounds;
  };

  Value windowUnitsOf(const Piece &piece);
  Value originOf(const Piece &piece);
  Share shareOf(const Piece &piece, Value mine);
  std::pair<Value, Value> enterWindow(const Piece &piece, Value mine, Value count, Ring &ring,
                                      Value query, Value bounds, Value state, Value output);
  Value windowHolds(const Piece &piece, Value isSink, Value row);
  std::pair<Value, Value> windowUnit(const Piece &piece, Value unit, Value query, Value bounds,
                                     Value state, Value output);
  std::pair<Value, Value> windowStep(const WindowTile &tile, Value query, Value bounds, Value state,
                                     Value output);
  void attend(const Piece &piece, Ring &ring, Variable &nextUnit);
  void unitsOf(Value from, Value to, Value &state, Value &output,
               function_ref<std::pair<Value, Value>(Value, Value, Value)> body);
  std::pair<Value, Value> step(Value tiles, Value query, Value state, Value output,
                               std::optional<Limits> limits);
  std::pair<Value, Value> unit(Ring &ring, Value query, Value state, Value output,
                               std::optional<Limits> limits);
  Piece locate(Value begin, Value end, Variable &seq);
  Value firstRecordUnit(Value seq);
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

} // namespace mlir::kvq

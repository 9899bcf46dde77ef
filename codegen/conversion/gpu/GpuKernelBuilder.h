// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the GPU skeleton builders share.
#pragma once

#include "codegen/conversion/KernelBuilder.h"
#include "codegen/conversion/gpu/BuildGpuKernels.h"
#include "codegen/conversion/gpu/WarpEmit.h"

#include "kvq/kernel_abi.h"

#include <cstddef>

namespace mlir::kvq {

class GpuKernelBuilder : public KernelBuilder {
public:
  GpuKernelBuilder(WarpEmit &emit, const ::kvq::CacheMethod &method, const Chip &chip, Value args)
      : KernelBuilder(emit, method, args, /*item=*/Value(), gpuWorkspaceOf(method).queries),
        warpEmit(emit), chip(chip) {}

  void appendWarps() { tokenWarps(&GpuKernelBuilder::append); }
  void appendWindowWarps() { tokenWarps(&GpuKernelBuilder::appendWindow); }
  void dequantizeWarps() { tokenWarps(&GpuKernelBuilder::dequantize); }
  void demoteWarps();
  void commitThreads();
  void plan();
  void prepareWarps();
  void decodeTeams();

protected:
  /// The plan's arrays (kvq_gpu_decode_args).
  struct Plan {
    Value units, chunks, teamSequence, teamUnit, lengths, firstUnits, quantized;
  };
  Plan planArrays();
  Value planWord(Value array, Value index) {
    return warpEmit.load(warpEmit.i32(), warpEmit.offset(array, warpEmit.mul(index, 4)));
  }
  // As the plan clamped them.
  Value lengthOf(Value seq) override;
  Value quantizedOf(Value seq) override;
  /// A segment's units of window rows, which come before those of its records: of the sink, of the
  /// recent window, and the number of the first unit of rows of the latter.
  struct WindowUnits {
    Value sink, recent, first;
  };
  WindowUnits windowUnits(Value length, Value quantized);
  /// KV heads times row blocks: the segments of a sequence, i64.
  Value headsAndBlocks();
  /// The number of this warp among all of the grid, i64.
  Value gridWarp();

  WarpEmit &warpEmit;
  const Chip &chip;

private:
  void tokenWarps(void (KernelBuilder::*body)());
  Value planSequence(const Plan &plan, Value seq);
  void planSequences(const Plan &plan);
  void placeTeam(const Plan &plan, Value team, Value chunk);
};

} // namespace mlir::kvq

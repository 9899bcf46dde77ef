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
      : KernelBuilder(emit, method, args, /*item=*/Value()), warpEmit(emit), chip(chip) {}

  void appendWarps();
  void plan();
  void prepareWarps();
  void decodeTeams();

protected:
  /// Lengths of the plan's arrays, and where they begin.
  struct Plan {
    Value units, chunks, teamSequence, teamUnit;
  };
  Plan planArrays();
  Value planWord(Value array, Value index) {
    return warpEmit.load(warpEmit.i32(), warpEmit.offset(array, warpEmit.mul(index, 4)));
  }
  /// The number of this warp among all of the grid, i64.
  Value gridWarp();

  WarpEmit &warpEmit;
  const Chip &chip;
};

} // namespace mlir::kvq

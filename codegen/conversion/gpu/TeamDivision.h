// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the list of all chunks is divided among teams (kernel_abi.h).
#pragma once

#include "codegen/conversion/gpu/WarpEmit.h"

namespace mlir::kvq {

/// i64 values. No more teams than chunks get one, so that those of a sequence follow one another.
class TeamDivision {
public:
  TeamDivision(WarpEmit &emit, Value total, Value teams)
      : emit(emit), total(total), busy(emit.min(teams, total)) {}

  /// Where team `team` begins; the end of the list for a team that gets nothing.
  Value begin(Value team) const {
    Value one = emit.index(1), divisor = emit.select(emit.less(busy, one), one, busy);
    return emit.div(emit.mul(total, emit.min(team, busy)), divisor);
  }
  /// The team that takes `chunk`, where there is one.
  Value teamOf(Value chunk) const {
    Value one = emit.index(1);
    return emit.div(emit.sub(emit.mul(emit.add(chunk, one), busy), one), total);
  }

private:
  WarpEmit &emit;
  Value total, busy;
};

} // namespace mlir::kvq

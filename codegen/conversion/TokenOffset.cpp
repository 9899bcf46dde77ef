// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/TokenOffset.h"

namespace mlir::kvq {

Value tokenOffset(Emit &emit, const ::kvq::Field &field, Value token) {
  Value bytes = emit.index(0);
  int64_t divisor = 1;
  for (const ::kvq::Digit &digit : field.token) {
    if (divisor >= ::kvq::kTileTokens)
      break;
    Value index = emit.rem(emit.div(token, divisor), digit.count);
    bytes = emit.add(bytes, emit.mul(index, digit.stride / 8));
    divisor *= digit.count;
  }
  return bytes;
}

} // namespace mlir::kvq

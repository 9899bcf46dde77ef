// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The writer's rule of record.md section 4 for one group, shared by all targets: fp32, IEEE
// division, no contraction.
#pragma once

#include "codegen/conversion/Numeric.h"
#include "dialect/KVQTile.h"

namespace mlir::kvq {

/// The middle of the codes as stored; 8-bit codes are signed.
inline double codeMiddle(int64_t bits) { return bits == 8 ? 0 : ((1 << bits) - 1) / 2.0; }

class QuantizeRule {
public:
  /// `low` and `high` are the f32 range of the group, zeros as +0.
  QuantizeRule(Numeric &emit, TileQuantizeOp op, Value low, Value high);

  /// As stored in a record: i16, or f32; null `storedZero` where the form has none.
  Value storedScale, storedZero;

  /// Codes of `x`, f32 or a vector of it, as i32 of the same shape; signed for 8 bits.
  Value codesOf(Value x) const;

private:
  void minForm(Value low, Value high);
  void zeroForm(Value low, Value high);
  void symForm(Value low, Value high);
  /// T(): nearest even to the parameter type, saturated; a zero of either sign is +0.
  Value stored(Value value) const;
  /// What codes are computed from: the fp32 value, or the stored one.
  Value source(Value fp32, Value stored) const;
  Value isZero(Value stored) const;
  Value real(double value) const { return emit.real(emit.f32(), value); }

  Numeric &emit;
  TileSideAttr side;
  bool halfEven, exact;
  double top, shift; ///< 2^bits - 1; 8-bit codes are stored less 128
  // code = tie(x / scale + offset) or, for the min form, tie((x - offset) / scale); 0 where
  // `constant` holds.
  Value scale, offset, constant;
};

} // namespace mlir::kvq

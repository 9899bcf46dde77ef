// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The writer's rule of record.md section 4, group by group. Codes: `dim` bytes. Params: for each
// group the scale and the zero as stored, each in its element type, 4 bytes apart.
#include "codegen/conversion/cpu/CpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {
namespace {

/// What rounding needs of one group: code = tie(x / scale + shift) or, for the min form, tie((x -
/// shift) / scale); 0 where `constant` holds.
struct GroupRule {
  Value scale, shift, constant;
  Value storedScale, storedZero;
};

class Quantize : public CpuPattern<TileQuantizeOp> {
  using CpuPattern::CpuPattern;

  struct Context {
    bool halfEven, exact;
    Numeric &emit;
    TileSideAttr side;
    double top;

    /// T(): nearest even to the parameter type, saturated; a zero of either sign is +0.
    Value stored(Value value) const {
      return emit.narrow(emit.fadd(emit.saturate(value, side.getParams()), real(0)),
                         side.getParams());
    }
    Value real(double value) const { return emit.real(emit.f32(), value); }
    /// What codes are computed from: the fp32 value, or the stored one.
    Value source(Value fp32, Value stored) const {
      return exact ? emit.saturate(fp32, emit.f32()) : emit.widen(stored, side.getParams());
    }
    Value isZero(Value stored) const {
      return emit.fequal(emit.widen(stored, side.getParams()), real(0));
    }
  };

  static GroupRule minForm(const Context &c, Value low, Value high) {
    GroupRule rule;
    Value scale = c.emit.fdiv(c.emit.fsub(high, low), c.real(c.top));
    rule.storedScale = c.stored(scale);
    rule.storedZero = c.stored(low);
    rule.scale = c.source(scale, rule.storedScale);
    rule.shift = c.source(low, rule.storedZero);
    rule.constant = c.isZero(rule.storedScale);
    return rule;
  }

  static GroupRule zeroForm(const Context &c, Value low, Value high) {
    Numeric &emit = c.emit;
    GroupRule rule;
    Value width = emit.fmax(emit.fsub(high, low), c.real(1e-8f));
    Value scale = emit.fdiv(width, c.real(c.top));
    Value storedScale = c.stored(scale);
    rule.scale = c.source(scale, storedScale);
    Value zero = emit.fdiv(emit.fneg(low), rule.scale);
    Value storedZero = c.stored(zero);
    rule.shift = c.source(zero, storedZero);
    Value largest = c.real(Numeric::largest(c.side.getParams()));
    rule.constant = emit.bitOr(c.isZero(storedScale), emit.notLessEqual(emit.fabs(zero), largest));
    // A group that the form cannot hold becomes one value v: code 0, scale |v|, zero -sign(v).
    Value middle =
        emit.widen(c.stored(emit.fmul(emit.fadd(low, high), c.real(0.5))), c.side.getParams());
    Value sign = emit.select(emit.fgreater(middle, c.real(0)), c.real(-1),
                             emit.select(emit.fless(middle, c.real(0)), c.real(1), c.real(0)));
    rule.storedScale = emit.select(rule.constant, c.stored(emit.fabs(middle)), storedScale);
    rule.storedZero = emit.select(rule.constant, c.stored(sign), storedZero);
    return rule;
  }

  static GroupRule symForm(const Context &c, Value low, Value high) {
    GroupRule rule;
    Value largest = c.emit.fmax(c.emit.fabs(low), c.emit.fabs(high));
    Value scale = c.emit.fdiv(largest, c.real(c.top / 2));
    rule.storedScale = c.stored(scale);
    rule.scale = c.source(scale, rule.storedScale);
    rule.shift = c.real(c.top / 2);
    rule.constant = c.isZero(rule.storedScale);
    return rule;
  }

  static Value codesOf(const Context &c, const GroupRule &rule, Value x) {
    Numeric &emit = c.emit;
    Value scale = emit.splat(rule.scale, kLanes), shift = emit.splat(rule.shift, kLanes);
    Value value = c.side.getForm() == "min" ? emit.fdiv(emit.fsub(x, shift), scale)
                                            : emit.fadd(emit.fdiv(x, scale), shift);
    // Bounding first keeps the conversion to integers defined, and clamps the code all the same.
    value = emit.fmin(emit.fmax(value, emit.real(value.getType(), 0)),
                      emit.real(value.getType(), c.top));
    Value codes = emit.roundToInt(value, c.halfEven);
    codes = emit.select(emit.splat(rule.constant, kLanes), emit.integer(codes.getType(), 0), codes);
    return arith::TruncIOp::create(emit.builder, emit.loc, emit.vec(kLanes, emit.i8()), codes);
  }

  SmallVector<Value> lower(TileQuantizeOp op, Adaptor operands, Numeric &emit) const final {
    TileSideAttr side = op.getSide();
    Context context{op.getHalfEven(), op.getExact(), emit, side,
                    static_cast<double>((1 << side.getBits()) - 1)};
    int64_t group = side.getGroup(), groups = side.getDim() / group;
    Value codes = emit.scratch(side.getDim()), params = emit.scratch(8 * groups);
    emit.loop(groups, [&](Value index) {
      Value row = emit.offset(operands.getRow(), emit.mul(index, 4 * group));
      auto [low, high] = rangeOf(emit, row, group);
      GroupRule rule = side.getForm() == "min"    ? minForm(context, low, high)
                       : side.getForm() == "zero" ? zeroForm(context, low, high)
                                                  : symForm(context, low, high);
      Value at = emit.offset(params, emit.mul(index, 8));
      emit.store(rule.storedScale, at);
      if (rule.storedZero)
        emit.store(rule.storedZero, emit.offset(at, 4));
      emit.loop(group / kLanes, [&](Value chunk) {
        Value x = emit.load(emit.vecF32(kLanes), emit.offset(row, emit.mul(chunk, kLaneBytes)), 64);
        Value channel = emit.add(emit.mul(index, group), emit.mul(chunk, kLanes));
        emit.store(codesOf(context, rule, x), emit.offset(codes, channel), 16);
      });
    });
    return {codes, params};
  }
};

} // namespace

void populateQuantizePatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                              CpuLowering &lowering) {
  patterns.add<Quantize>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

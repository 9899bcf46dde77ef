// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/RecordWalk.h"

#include "codegen/conversion/QuantizeRule.h"
#include "codegen/conversion/TokenOffset.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {
namespace {

using ::kvq::Field;
using ::kvq::FieldKind;

class ElementLoad {
public:
  ElementLoad(Numeric &emit, const ::kvq::RecordLayout &layout, bool key, Value tile, Value token,
              Value channel)
      : emit(emit), layout(layout), key(key), tile(tile), token(token), channel(channel) {}

  /// What `read` makes of the field of that kind which holds the channel.
  Value of(FieldKind kind, function_ref<Value(const Field &, Value)> read) {
    Value result;
    for (const Field &field : layout.fields) {
      if (field.kind != kind || (field.side == 'k') != key)
        continue;
      // Channels of other fields read the nearest one of this, and are not chosen.
      Value last = emit.index(field.endChannel - field.firstChannel - 1), zero = emit.index(0);
      Value inField = emit.sub(channel, emit.index(field.firstChannel));
      Value clamped = emit.select(emit.less(inField, zero), zero, emit.min(inField, last));
      Value value = read(field, clamped);
      result = result ? emit.select(emit.less(inField, zero), result, value) : value;
    }
    return result;
  }

  Value code(const Field &field, Value inField) {
    Value bit = bits(field, inField);
    Value byte = emit.load(emit.i8(), emit.offset(start(field), emit.div(bit, 8)), 1);
    if (field.width == 8) {
      Type word = emit.i32();
      Value wide = field.isSigned
                       ? Value(arith::ExtSIOp::create(emit.builder, emit.loc, word, byte))
                       : Value(arith::ExtUIOp::create(emit.builder, emit.loc, word, byte));
      return arith::SIToFPOp::create(emit.builder, emit.loc, emit.f32(), wide);
    }
    Value wide = arith::ExtUIOp::create(emit.builder, emit.loc, emit.i64(), byte);
    Value shifted = arith::ShRUIOp::create(emit.builder, emit.loc, wide, emit.rem(bit, 8));
    Value code = emit.bitAnd(shifted, emit.index((1 << field.width) - 1));
    return arith::SIToFPOp::create(emit.builder, emit.loc, emit.f32(), code);
  }

  Value parameter(const Field &field, Value inField, Type element) {
    Value at = emit.offset(start(field), emit.div(bits(field, inField), 8));
    Value stored = emit.load(emit.storageOf(element), at, ::kvq::elementBytes(field.element));
    return emit.widen(stored, element);
  }

private:
  Value start(const Field &field) {
    return emit.offset(tile, emit.add(tokenOffset(emit, field, token), field.offset));
  }

  Value bits(const Field &field, Value inField) {
    Value sum = emit.index(0);
    int64_t divisor = 1;
    for (const ::kvq::Digit &digit : field.channel) {
      Value index = emit.rem(emit.div(inField, divisor), digit.count);
      sum = emit.add(sum, emit.mul(index, digit.stride));
      divisor *= digit.count;
    }
    return sum;
  }

  Numeric &emit;
  const ::kvq::RecordLayout &layout;
  bool key;
  Value tile, token, channel;
};

} // namespace

Value loadElement(Numeric &emit, const ::kvq::RecordLayout &layout, TileSideAttr side, bool key,
                  Value tile, Value token, Value channel) {
  ElementLoad load(emit, layout, key, tile, token, channel);
  auto parameter = [&](FieldKind kind) {
    return load.of(kind, [&](const Field &field, Value at) {
      return load.parameter(field, at, side.getParams());
    });
  };
  Value code =
      load.of(FieldKind::code, [&](const Field &field, Value at) { return load.code(field, at); });
  Value scale = parameter(FieldKind::scale), offset;
  if (side.getForm() == "sym") {
    offset = emit.fmul(scale, emit.real(emit.f32(), -codeMiddle(side.getBits())));
  } else {
    offset = parameter(FieldKind::zero);
    if (side.getForm() == "zero")
      offset = emit.fneg(emit.fmul(offset, scale));
  }
  return emit.fadd(emit.fmul(scale, code), offset);
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packing. The codes of a token go through shared memory, one byte per channel, to the lanes that
// own the bytes of the record; each byte is one store.
#include "codegen/conversion/RecordWalk.h"
#include "codegen/conversion/TokenOffset.h"
#include "codegen/conversion/gpu/GpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {
namespace {

/// The digits of a field's channels, parted into those that move between bytes and the slots of a
/// byte.
struct ByteWalk {
  struct Digit {
    int64_t count, channels, bytes;
  };
  SmallVector<Digit> digits;
  SmallVector<int64_t> slotChannels; ///< [slot] distance in channels from slot 0
  int64_t bytes = 1;

  explicit ByteWalk(const ::kvq::Field &field) : slotChannels(8 / field.width, 0) {
    int64_t weight = 1;
    for (const ::kvq::Digit &digit : field.channel) {
      if (digit.stride >= 8) {
        digits.push_back({digit.count, weight, digit.stride / 8});
        bytes *= digit.count;
      } else {
        for (size_t slot = 0; slot < slotChannels.size(); ++slot)
          slotChannels[slot] += int64_t(slot) * field.width / digit.stride % digit.count * weight;
      }
      weight *= digit.count;
    }
  }
};

class StoreCodes : public GpuPattern<TileStoreCodesOp> {
  using GpuPattern::GpuPattern;

  /// Byte number `number` (i64) of the token: its channel of slot 0, and where it lies.
  static std::pair<Value, Value> place(WarpEmit &emit, const ByteWalk &walk, Value number) {
    Value channel = emit.index(0), byte = emit.index(0);
    int64_t divisor = 1;
    for (const ByteWalk::Digit &digit : walk.digits) {
      Value index = emit.rem(emit.div(number, divisor), digit.count);
      channel = emit.add(channel, emit.mul(index, digit.channels));
      byte = emit.add(byte, emit.mul(index, digit.bytes));
      divisor *= digit.count;
    }
    return {channel, byte};
  }

  static void storeField(WarpEmit &emit, const ::kvq::Field &field, Value staged, Value tile) {
    ByteWalk walk(field);
    Value lane = emit.wide(emit.lane());
    for (int64_t first = 0; first < walk.bytes; first += 32) {
      Value number = emit.add(lane, first);
      auto body = [&] {
        auto [channel, byte] = place(emit, walk, number);
        Value source = emit.offset(emit.offset(staged, field.firstChannel), channel), packed;
        for (size_t slot = 0; slot < walk.slotChannels.size(); ++slot) {
          Value code = emit.load(emit.i8(), emit.offset(source, walk.slotChannels[slot]), 1);
          code = emit.shl(code, static_cast<int64_t>(slot) * field.width);
          packed = packed ? emit.bitOr(packed, code) : code;
        }
        emit.store(packed, emit.offset(emit.offset(tile, field.offset), byte), 1);
      };
      if (first + 32 <= walk.bytes)
        body();
      else
        emit.when(emit.less(number, emit.index(walk.bytes)), body);
    }
  }

  SmallVector<Value> lower(TileStoreCodesOp op, Adaptor operands, WarpEmit &emit) const final {
    bool key = op.getSide() == TileSideKind::key;
    int64_t dim = op.getRecord().getSide(op.getSide()).getDim();
    Value staged = emit.offset(emit.shared(), emit.mul(emit.wide(emit.warp()), kAppendWarpBytes));
    Value mine = emit.offset(staged, emit.wide(emit.lane()));
    for (int64_t slot = 0; slot < dim / 32; ++slot) {
      Value code = arith::TruncIOp::create(emit.builder, emit.loc, emit.i8(),
                                           emit.loadWord(operands.getCodes(), 4 * slot));
      emit.store(code, emit.offset(mine, 32 * slot), 1);
    }
    emit.syncWarp();
    for (const ::kvq::Field &field : lowering.layout(op.getRecord()).fields)
      if (field.kind == ::kvq::FieldKind::code && (field.side == 'k') == key)
        storeField(emit, field, staged,
                   emit.offset(operands.getTile(), tokenOffset(emit, field, operands.getToken())));
    emit.syncWarp();
    return {};
  }
};

class StoreParams : public GpuPattern<TileStoreParamsOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileStoreParamsOp op, Adaptor operands, WarpEmit &emit) const final {
    bool key = op.getSide() == TileSideKind::key;
    TileSideAttr side = op.getRecord().getSide(op.getSide());
    Type storage = emit.storageOf(side.getParams());
    emit.when(emit.equal(emit.lane(), emit.word(0)), [&] {
      for (const ::kvq::Field &field : lowering.layout(op.getRecord()).fields) {
        if (field.kind == ::kvq::FieldKind::code || (field.side == 'k') != key)
          continue;
        Value address =
            emit.offset(operands.getTile(), tokenOffset(emit, field, operands.getToken()));
        int64_t zero = field.kind == ::kvq::FieldKind::zero ? 4 : 0;
        for (int64_t channel = field.firstChannel; channel < field.endChannel;
             channel += side.getGroup()) {
          Value source = emit.offset(operands.getParams(), channel / side.getGroup() * 8 + zero);
          emit.store(emit.load(storage, source, 4),
                     emit.offset(address, ::kvq::bitAddress(field, 0, channel) / 8),
                     ::kvq::elementBytes(field.element));
        }
      }
    });
    return {};
  }
};

/// Each lane its channels.
class LoadCodes : public GpuPattern<TileLoadCodesOp> {
  using GpuPattern::GpuPattern;
  SmallVector<Value> lower(TileLoadCodesOp op, Adaptor operands, WarpEmit &emit) const final {
    int64_t slots = op.getRow().getType().getDim() / 32;
    Value row = emit.registers(slots), lane = emit.wide(emit.lane());
    for (int64_t slot = 0; slot < slots; ++slot)
      emit.put(loadElement(emit, lowering.layout(op.getRecord()),
                           op.getRecord().getSide(op.getSide()), op.getSide() == TileSideKind::key,
                           operands.getTile(), operands.getToken(), emit.add(lane, 32 * slot)),
               row, 4 * slot);
    return {row};
  }
};

} // namespace

void populateStoreRecordPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                                 GpuLowering &lowering) {
  patterns.add<StoreCodes, StoreParams, LoadCodes>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

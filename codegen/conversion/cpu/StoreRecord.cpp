// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packing: the codes of one token become bytes by one constant shuffle per slot; each byte is
// stored by itself or with the bytes of the same token beside it.
#include "codegen/conversion/RecordWalk.h"
#include "codegen/conversion/TokenOffset.h"
#include "codegen/conversion/cpu/CpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {
namespace {

class StoreCodes : public CpuPattern<TileStoreCodesOp> {
  using CpuPattern::CpuPattern;

  /// Bytes of one token in `field`: for each byte of token 0 the channel of each slot, and where
  /// the byte lies.
  struct Bytes {
    std::vector<int64_t> places;                // [byte] from the tile
    std::vector<SmallVector<int64_t>> channels; // [slot][byte] channel within the field
  };

  static Bytes bytesOf(const ::kvq::Field &field, int slots) {
    Bytes bytes;
    std::map<int64_t, int64_t> indices;
    for (int64_t channel = field.firstChannel; channel < field.endChannel; ++channel)
      indices.emplace(::kvq::bitAddress(field, 0, channel) / 8, 0);
    for (auto &[place, index] : indices) {
      index = static_cast<int64_t>(bytes.places.size());
      bytes.places.push_back(place);
    }
    bytes.channels.assign(slots, SmallVector<int64_t>(indices.size(), 0));
    for (int64_t channel = field.firstChannel; channel < field.endChannel; ++channel) {
      int64_t bit = ::kvq::bitAddress(field, 0, channel);
      bytes.channels[bit % 8 / field.width][indices.at(bit / 8)] = channel - field.firstChannel;
    }
    return bytes;
  }

  static Value pack(Numeric &emit, Value codes, const ::kvq::Field &field, const Bytes &bytes) {
    Value source = emit.load(emit.vec(field.endChannel - field.firstChannel, emit.i8()),
                             emit.offset(codes, field.firstChannel), 16);
    Value packed;
    for (size_t slot = 0; slot < bytes.channels.size(); ++slot) {
      Value lanes = emit.shl(emit.shuffle(source, bytes.channels[slot]),
                             static_cast<int64_t>(slot) * field.width);
      packed = packed ? emit.bitOr(packed, lanes) : lanes;
    }
    return packed;
  }

  /// Stores the bytes, those that follow one another together.
  static void storeBytes(Numeric &emit, Value packed, ArrayRef<int64_t> places, Value address) {
    size_t begin = 0;
    while (begin < places.size()) {
      size_t count = 1;
      while (begin + 2 * count <= places.size() && begin % (2 * count) == 0 &&
             places[begin + 2 * count - 1] == places[begin] + static_cast<int64_t>(2 * count) - 1)
        count *= 2;
      Value target = emit.offset(address, places[begin]);
      if (count == 1)
        emit.store(emit.lane(packed, begin), target, 1);
      else
        emit.store(emit.slice(packed, begin, count), target, 1);
      begin += count;
    }
  }

  SmallVector<Value> lower(TileStoreCodesOp op, Adaptor operands, Numeric &emit) const final {
    const TileMap &map = lowering.map(op.getRecord());
    bool key = op.getSide() == TileSideKind::key;
    for (const ::kvq::Field &field : map.fields) {
      if (field.kind != ::kvq::FieldKind::code || (field.side == 'k') != key)
        continue;
      Bytes bytes = bytesOf(field, key ? map.keySlots : map.valueSlots);
      Value address =
          emit.offset(operands.getTile(), tokenOffset(emit, field, operands.getToken()));
      storeBytes(emit, pack(emit, operands.getCodes(), field, bytes), bytes.places, address);
    }
    return {};
  }
};

class StoreParams : public CpuPattern<TileStoreParamsOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileStoreParamsOp op, Adaptor operands, Numeric &emit) const final {
    const TileMap &map = lowering.map(op.getRecord());
    bool key = op.getSide() == TileSideKind::key;
    TileSideAttr side = op.getRecord().getSide(op.getSide());
    int64_t bytes = side.getParams().getIntOrFloatBitWidth() / 8;
    for (const ::kvq::Field &field : map.fields) {
      if (field.kind == ::kvq::FieldKind::code || (field.side == 'k') != key)
        continue;
      Value address =
          emit.offset(operands.getTile(), tokenOffset(emit, field, operands.getToken()));
      int64_t zero = field.kind == ::kvq::FieldKind::zero ? 4 : 0;
      for (int64_t channel = field.firstChannel; channel < field.endChannel;
           channel += map.groupSize(key)) {
        int64_t source = channel / map.groupSize(key) * 8 + zero;
        Value parameter =
            emit.load(emit.storageOf(side.getParams()), emit.offset(operands.getParams(), source));
        emit.store(parameter, emit.offset(address, ::kvq::bitAddress(field, 0, channel) / 8),
                   bytes);
      }
    }
    return {};
  }
};

/// One channel after the other.
class LoadCodes : public CpuPattern<TileLoadCodesOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileLoadCodesOp op, Adaptor operands, Numeric &emit) const final {
    const ::kvq::RecordLayout layout = ::kvq::buildRecord(op.getRecord().getSpec());
    int64_t dim = op.getRow().getType().getDim();
    Value row = emit.scratch(4 * dim);
    emit.loop(dim, [&](Value channel) {
      Value value = loadElement(emit, layout, op.getRecord().getSide(op.getSide()),
                                op.getSide() == TileSideKind::key, operands.getTile(),
                                operands.getToken(), channel);
      emit.store(value, emit.offset(row, emit.mul(channel, 4)));
    });
    return {row};
  }
};

} // namespace

void populateStoreRecordPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                                 CpuLowering &lowering) {
  patterns.add<StoreCodes, StoreParams, LoadCodes>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scores of a tile. Params: [group][scale, offset][16 tokens]. Dots: [query][group][16 tokens].
// Scores: [query][16].
#include "codegen/conversion/QuantizeRule.h"
#include "codegen/conversion/cpu/CpuPattern.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

namespace mlir::kvq {

Value extractSlot(Numeric &emit, Value row, int slot, int bits) {
  Value lanes = slot ? emit.shr(row, int64_t(slot) * bits) : row;
  return (slot + 1) * bits == 8 ? lanes
                                : emit.bitAnd(lanes, emit.integer(row.getType(), (1 << bits) - 1));
}

Value unitCodes(Numeric &emit, Value slotBytes, int unit, int bits) {
  Value bytes = emit.slice(slotBytes, int64_t(unit) * kLanes, kLanes);
  if (bits == 8)
    return arith::SIToFPOp::create(emit.builder, emit.loc, emit.vecF32(kLanes), bytes);
  return arith::UIToFPOp::create(emit.builder, emit.loc, emit.vecF32(kLanes), bytes);
}

int64_t rowAlignment(const TileMap &map, int64_t offset, int64_t rowBytes) {
  int64_t alignment = std::gcd(std::gcd(map.tileBytes, offset), rowBytes);
  alignment = std::gcd(alignment, int64_t(::kvq::kRecordAlign));
  return alignment;
}

namespace {

/// Without a count every token of the tile is valid.
Value validMask(Numeric &emit, Value valid) {
  return emit.laneMask(valid ? valid : emit.index(kTileTokens));
}

class LoadParams : public CpuPattern<TileLoadParamsOp> {
  using CpuPattern::CpuPattern;

  /// 16 tokens of one parameter in fp32; 0 where `mask` is false.
  static Value load(Numeric &emit, const TileMap &map, Value tile, const ParamSlot &slot,
                    Type element, Value mask) {
    int64_t bytes = element.getIntOrFloatBitWidth() / 8;
    Value region = emit.load(emit.vec(slot.regionBytes / bytes, emit.storageOf(element)),
                             emit.offset(tile, slot.regionOffset),
                             rowAlignment(map, slot.regionOffset, slot.regionBytes));
    Value lanes = emit.widen(emit.shuffle(region, slot.elements), element);
    return emit.select(mask, lanes, emit.real(lanes.getType(), 0));
  }

  SmallVector<Value> lower(TileLoadParamsOp op, Adaptor operands, Numeric &emit) const final {
    const TileMap &map = lowering.map(op.getRecord());
    TileSideAttr side = op.getRecord().getSide(op.getSide());
    const ParamMap &params = map.params(op.getSide() == TileSideKind::key);
    int64_t groups = static_cast<int64_t>(params.scale.size());
    Value mask = validMask(emit, operands.getValid());
    Value result = emit.scratch(2 * kLaneBytes * groups);
    for (int64_t group = 0; group < groups; ++group) {
      Value scale =
          load(emit, map, operands.getTile(), params.scale[group], side.getParams(), mask);
      Value offset;
      if (side.getForm() == "sym") {
        offset = emit.fmul(scale, emit.real(scale.getType(), -codeMiddle(side.getBits())));
      } else {
        offset = load(emit, map, operands.getTile(), params.zero[group], side.getParams(), mask);
        if (side.getForm() == "zero")
          offset = emit.fneg(emit.fmul(offset, scale));
      }
      emit.store(scale, emit.offset(result, 2 * kLaneBytes * group), 64);
      emit.store(offset, emit.offset(result, 2 * kLaneBytes * group + kLaneBytes), 64);
    }
    return {result};
  }
};

class Dot : public CpuPattern<TileDotOp> {
  using CpuPattern::CpuPattern;

  /// Queries whose accumulators are held at once: the largest divisor that fits in the registers.
  static int64_t blockOf(int64_t queries) {
    int64_t block = std::min<int64_t>(queries, 8);
    while (queries % block)
      --block;
    return block;
  }

  /// One row g: acc[query][group] of 16 lanes [token half][8 channels], stored to `sums` + query,
  /// group strides.
  static void row(Numeric &emit, const TileMap &map, Value tile, Value g, Value query,
                  int64_t block, Value sums) {
    int64_t dim = map.spec.k.dim, at = 0;
    SmallVector<SmallVector<Value>> acc(block, SmallVector<Value>(map.keyGroups));
    SmallVector<int64_t> twice = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
    for (const KeyCut &cut : map.keyCuts) {
      Value address = emit.offset(emit.offset(tile, cut.offset), emit.mul(g, cut.rowBytes));
      Value bytes = emit.load(emit.vec(cut.rowBytes, emit.i8()), address,
                              rowAlignment(map, cut.offset, cut.rowBytes));
      bytes = emit.shuffle(bytes, cut.byteOrder);
      for (int slot = 0; slot < map.keySlots; ++slot) {
        Value slotBytes = extractSlot(emit, bytes, slot, map.spec.k.bits);
        for (int unit = 0; unit < cut.units; ++unit, at += 8) {
          Value codes = unitCodes(emit, slotBytes, unit, map.spec.k.bits);
          for (int64_t q = 0; q < block; ++q) {
            Value eight = emit.load(emit.vecF32(8), emit.offset(query, 4 * (q * dim + at)));
            Value &sum = acc[q][cut.groups[slot]];
            Value lanes = emit.shuffle(eight, twice);
            sum = sum ? emit.multiplyAdd(codes, lanes, sum) : emit.fmul(codes, lanes);
          }
        }
      }
    }
    for (int64_t q = 0; q < block; ++q)
      for (int group = 0; group < map.keyGroups; ++group) {
        int64_t index = (q * map.keyGroups + group) * kRows;
        emit.store(acc[q][group],
                   emit.offset(emit.offset(sums, kLaneBytes * index), emit.mul(g, kLaneBytes)), 64);
      }
  }

  /// Adds the 8 channels of each token: eight rows [token half][8] become 16 tokens.
  static Value tokens(Numeric &emit, Value sums) {
    SmallVector<int64_t> even, odd, order;
    for (int64_t i = 0; i < kLanes; ++i) {
      even.push_back(2 * i);
      odd.push_back(2 * i + 1);
      order.push_back(i % 8 * 2 + i / 8);
    }
    SmallVector<Value> rows;
    for (int64_t g = 0; g < kRows; ++g)
      rows.push_back(emit.load(emit.vecF32(kLanes), emit.offset(sums, g * kLaneBytes), 64));
    while (rows.size() > 1) {
      SmallVector<Value> next;
      for (size_t i = 0; i < rows.size(); i += 2)
        next.push_back(emit.fadd(emit.shuffle(rows[i], rows[i + 1], even),
                                 emit.shuffle(rows[i], rows[i + 1], odd)));
      rows = next;
    }
    return emit.shuffle(rows.front(), order);
  }

  SmallVector<Value> lower(TileDotOp op, Adaptor operands, Numeric &emit) const final {
    const TileMap &map = lowering.map(op.getRecord());
    int64_t queries = op.getQueries(), block = blockOf(queries), groups = map.keyGroups;
    Value dots = emit.scratch(kLaneBytes * queries * groups);
    Value sums = emit.scratch(kLaneBytes * kRows * block * groups);
    emit.loop(queries / block, [&](Value part) {
      Value query = emit.offset(operands.getQuery(), emit.mul(part, 4 * block * map.spec.k.dim));
      emit.loop(kRows, [&](Value g) { row(emit, map, operands.getTile(), g, query, block, sums); });
      Value target = emit.offset(dots, emit.mul(part, kLaneBytes * block * groups));
      emit.loop(block * groups, [&](Value index) {
        Value lanes = tokens(emit, emit.offset(sums, emit.mul(index, kLaneBytes * kRows)));
        emit.store(lanes, emit.offset(target, emit.mul(index, kLaneBytes)), 64);
      });
    });
    return {dots};
  }
};

class Score : public CpuPattern<TileScoreOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileScoreOp op, Adaptor operands, Numeric &emit) const final {
    const TileMap &map = lowering.map(op.getRecord());
    int64_t queries = op.getQueries(), groups = map.keyGroups;
    Workspace space = workspaceOf(op.getRecord(), queries);
    Type lanesType = emit.vecF32(kLanes);
    Value scores = emit.scratch(kLaneBytes * queries);
    Value sums = emit.offset(operands.getQuery(), 4 * space.querySums());
    emit.loop(queries, [&](Value q) {
      Value score =
          emit.loopCarry(emit.index(groups), emit.real(lanesType, 0), [&](Value group, Value sum) {
            Value index = emit.add(emit.mul(q, groups), group);
            Value params = emit.offset(operands.getParams(), emit.mul(group, 2 * kLaneBytes));
            Value dot = emit.load(lanesType,
                                  emit.offset(operands.getDots(), emit.mul(index, kLaneBytes)), 64);
            Value querySum = emit.load(emit.f32(), emit.offset(sums, emit.mul(index, 4)));
            Value scale = emit.load(lanesType, params, 64);
            Value offset = emit.load(lanesType, emit.offset(params, kLaneBytes), 64);
            sum = emit.multiplyAdd(offset, emit.splat(querySum, kLanes), sum);
            return emit.multiplyAdd(scale, dot, sum);
          });
      emit.store(score, emit.offset(scores, emit.mul(q, kLaneBytes)), 64);
    });
    return {scores};
  }
};

} // namespace

void populateScorePatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                           CpuLowering &lowering) {
  patterns.add<LoadParams, Dot, Score>(converter, patterns.getContext(), lowering);
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The query workspace (codegen/conversion/Workspace.h). A query is kept in the order of the dot:
// cut, slot, unit, then the 8 channels whose codes share a unit.
#include "codegen/conversion/cpu/CpuPattern.h"

namespace mlir::kvq {
namespace {

/// Copies row[order[i]] to target[i], runs of consecutive channels as vectors.
void permute(Numeric &emit, Value row, Value target, ArrayRef<int> order) {
  for (size_t begin = 0; begin < order.size();) {
    size_t count = 1;
    while (count < 8 && begin % (2 * count) == 0 && begin + 2 * count <= order.size() &&
           order[begin + 2 * count - 1] == order[begin] + static_cast<int>(2 * count) - 1)
      count *= 2;
    Type type = count == 1 ? emit.f32() : emit.vecF32(count);
    Value piece = emit.load(type, emit.offset(row, 4 * int64_t(order[begin])));
    emit.store(piece, emit.offset(target, 4 * static_cast<int64_t>(begin)));
    begin += count;
  }
}

class StoreQuery : public CpuPattern<TileStoreQueryOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileStoreQueryOp op, Adaptor operands, Numeric &emit) const final {
    const TileMap &map = lowering.map(op.getRecord());
    Workspace space = workspaceOf(op.getRecord(), op.getQueries());
    Value row = operands.getRow(), index = operands.getIndex(), base = operands.getWorkspace();
    std::vector<int> order;
    for (const KeyCut &cut : map.keyCuts)
      order.insert(order.end(), cut.channels.begin(), cut.channels.end());
    permute(emit, row, emit.offset(base, emit.mul(index, 4 * space.keyDim)), order);

    Value sums =
        emit.offset(base, emit.add(emit.mul(index, 4 * space.keyGroups), 4 * space.querySums()));
    emit.loop(map.keyGroups, [&](Value group) {
      Value start = emit.offset(row, emit.mul(group, 4 * map.keyGroupSize));
      Value zero = emit.real(emit.vecF32(kLanes), 0);
      Value lanes =
          emit.loopCarry(emit.index(map.keyGroupSize / kLanes), zero, [&](Value chunk, Value sum) {
            return emit.fadd(sum, emit.load(emit.vecF32(kLanes),
                                            emit.offset(start, emit.mul(chunk, kLaneBytes)), 64));
          });
      emit.store(emit.sum(lanes), emit.offset(sums, emit.mul(group, 4)));
    });
    emit.store(operands.getShift(),
               emit.offset(base, emit.add(emit.mul(index, 4), 4 * space.queryShifts())));
    return {};
  }
};

class ClearQuery : public CpuPattern<TileClearQueryOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileClearQueryOp op, Adaptor operands, Numeric &emit) const final {
    Workspace space = workspaceOf(op.getRecord(), op.getQueries());
    Value base = operands.getWorkspace(), index = operands.getIndex();
    auto clear = [&](int64_t first, int64_t count) {
      Value at = emit.add(emit.mul(index, 4 * count), 4 * first);
      Value part = emit.offset(base, at);
      emit.loop(count, [&](Value i) {
        emit.store(emit.real(emit.f32(), 0), emit.offset(part, emit.mul(i, 4)));
      });
    };
    clear(0, space.keyDim);
    clear(space.querySums(), space.keyGroups);
    clear(space.queryShifts(), 1);
    return {};
  }
};

class QueryShift : public CpuPattern<TileQueryShiftOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileQueryShiftOp op, Adaptor operands, Numeric &emit) const final {
    Workspace space = workspaceOf(op.getRecord(), op.getQueries());
    Value at = emit.add(emit.mul(operands.getIndex(), 4), 4 * space.queryShifts());
    return {emit.load(emit.f32(), emit.offset(operands.getWorkspace(), at))};
  }
};

class LoadQuery : public CpuPattern<TileLoadQueryOp> {
  using CpuPattern::CpuPattern;
  SmallVector<Value> lower(TileLoadQueryOp, Adaptor operands, Numeric &) const final {
    return {operands.getWorkspace()};
  }
};

} // namespace

Workspace workspaceOf(TileRecordAttr record, int64_t queries) {
  return {queries, record.getK().getDim(), record.getK().getDim() / record.getK().getGroup(),
          record.getV().getDim()};
}

void populateQueryPatterns(RewritePatternSet &patterns, const TypeConverter &converter,
                           CpuLowering &lowering) {
  patterns.add<StoreQuery, ClearQuery, QueryShift, LoadQuery>(converter, patterns.getContext(),
                                                              lowering);
}

} // namespace mlir::kvq

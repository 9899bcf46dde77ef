// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of single tokens and KV heads (kernel_abi.h, section Tokens). append: load the row of
// each side, the steps of its pipeline, quantize, store into the tile; append_window: the same up
// to the rotated row; dequantize: back.
#include "codegen/conversion/KernelBuilder.h"

#include "codegen/conversion/TileMap.h"
#include "kvq/kernel_abi.h"

#include <algorithm>
#include <cstddef>

#define ARG(field) offsetof(kvq_token_kernel_args, field)

namespace mlir::kvq {

using ::kvq::Step;

static constexpr PoolFields kPool = poolFields<kvq_token_kernel_args>();

Value KernelBuilder::clip(Value row, const ::kvq::SideMethod &side, const Step &step) {
  int64_t dim = side.record.dim;
  int64_t scope = step.per_group && side.record.group ? side.record.group : dim;
  // The index is a product in f64, truncated; ratio 1 names the largest element.
  int64_t index = std::clamp<int64_t>(static_cast<int64_t>(step.value * static_cast<double>(scope)),
                                      0, scope - 1);
  auto kind = step.clip == Step::Clip::order_statistic ? TileClipKind::order_statistic
              : step.clip == Step::Clip::ratio         ? TileClipKind::ratio
                                                       : TileClipKind::constant;
  return TileClipOp::create(emit.builder, emit.loc, row.getType(), row, kind, scope, index,
                            llvm::APFloat(step.value));
}

/// Steps up to the last one that moves a row; clips may follow, and see the rotated row.
static size_t movesOf(const ::kvq::SideMethod &side) {
  auto lastMove = std::find_if(side.steps.rbegin(), side.steps.rend(),
                               [](const Step &step) { return step.kind != Step::Kind::clip; });
  return size_t(side.steps.rend() - lastMove);
}

/// The rotated row of a side, finite.
Value KernelBuilder::rotatedRow(bool key, Value address) {
  const ::kvq::SideMethod &side = key ? method.key : method.value;
  OpBuilder &builder = emit.builder;
  Value row = loadRow(address, side.rows, side.record.dim);
  for (size_t index = 0; index < movesOf(side); ++index) {
    const Step &step = side.steps[index];
    if (step.kind == Step::Kind::clip) {
      row = clip(row, side, step);
      continue;
    }
    if (step.kind == Step::Kind::center)
      row = TileCenterOp::create(builder, emit.loc, row.getType(), row,
                                 constant(step.constant, constants, layer, constantHead));
    else
      row = rotate(row, step, /*inverse=*/false, /*anyOrder=*/false);
    if (step.result != ::kvq::ElementType::f32)
      row = TileRoundRowOp::create(builder, emit.loc, row.getType(), row, element(step.result));
  }
  return TileSanitizeOp::create(builder, emit.loc, row.getType(), row, element(side.storedRows()));
}

/// Clips, quantizes and packs a rotated row.
void KernelBuilder::quantizeRow(bool key, Value row, Value tile, Value token) {
  const ::kvq::SideMethod &side = key ? method.key : method.value;
  OpBuilder &builder = emit.builder;
  for (size_t index = movesOf(side); index < side.steps.size(); ++index)
    row = clip(row, side, side.steps[index]);
  TileSideKind kind = key ? TileSideKind::key : TileSideKind::value;
  auto quantized = TileQuantizeOp::create(builder, emit.loc, fragment(FragmentKind::codes),
                                          fragment(FragmentKind::params), row, record.getSide(kind),
                                          side.round.tie == ::kvq::RoundRule::Tie::half_even,
                                          side.round.source == ::kvq::RoundRule::Source::exact);
  TileStoreCodesOp::create(builder, emit.loc, quantized.getCodes(), tile, token, record, kind);
  TileStoreParamsOp::create(builder, emit.loc, quantized.getParams(), tile, token, record, kind);
}

/// The slot of a token, of either width, i64.
Value KernelBuilder::slotOf(Value token) {
  Value bytes = argument(ARG(slot_bytes));
  Value low = emit.offset(pointerArgument(ARG(slots)), emit.mul(token, bytes));
  Value high = emit.offset(low, emit.sub(bytes, emit.index(4)));
  Value narrow = loadIndex(low), top = loadIndex(high);
  Value both = emit.bitOr(emit.shl(top, 32), emit.bitAnd(narrow, emit.index(0xffffffff)));
  return emit.select(emit.equal(bytes, emit.index(8)), both, narrow);
}

/// body(token, head, page, position in the page) for the item, unless its slot is skipped.
void KernelBuilder::ofSlot(function_ref<void(Value, Value, Value, Value)> body) {
  Value heads = argument(ARG(kv_heads));
  Value token = emit.div(item, heads), head = emit.rem(item, heads), slot = slotOf(token);
  Value page = argument(ARG(page_tokens)), reserved = argument(ARG(reserved_slot));
  Value other = emit.bitOr(emit.less(slot, reserved), emit.less(reserved, slot));
  emit.when(emit.bitAnd(emit.less(emit.index(-1), slot), other), [&] {
    loadConstantPlace<kvq_token_kernel_args>(head);
    body(token, head, emit.div(slot, page), emit.rem(slot, page));
  });
}

/// Where the row of a token and head lies that the caller has.
Value KernelBuilder::rowOf(bool key, Value token, Value head) {
  Value tokens = argument(key ? ARG(k_token_stride) : ARG(v_token_stride));
  Value heads = argument(key ? ARG(k_head_stride) : ARG(v_head_stride));
  return emit.offset(pointerArgument(key ? ARG(k) : ARG(v)),
                     emit.add(emit.mul(token, tokens), emit.mul(head, heads)));
}

void KernelBuilder::append() {
  ofSlot([&](Value token, Value head, Value page, Value position) {
    Value tile = tileOf(pagesOf(kPool, head), page, position),
          inTile = emit.rem(position, kTileTokens);
    for (bool key : {true, false})
      quantizeRow(key, rotatedRow(key, rowOf(key, token, head)), tile, inTile);
  });
}

void KernelBuilder::appendWindow() {
  ofSlot([&](Value token, Value head, Value page, Value position) {
    Value base = pageOf(pagesOf(kPool, head), page);
    Value size = argument(ARG(page_tokens));
    for (bool key : {true, false}) {
      Value row = rotatedRow(key, rowOf(key, token, head));
      const ::kvq::ElementType type = (key ? method.key : method.value).storedRows();
      TileStoreRowOp::create(emit.builder, emit.loc, row, windowRow(base, size, position, key),
                             element(type));
    }
  });
}

Value KernelBuilder::undoSteps(const ::kvq::SideMethod &side, Value row, Value mass) {
  for (auto step = side.steps.rbegin(); step != side.steps.rend(); ++step) {
    if (step->kind == Step::Kind::rotate)
      row = rotate(row, *step, /*inverse=*/true, /*anyOrder=*/true);
    else if (step->kind == Step::Kind::center)
      row = TileAddMeanOp::create(emit.builder, emit.loc, row.getType(), row,
                                  constant(step->constant, constants, layer, constantHead), mass);
  }
  return row;
}

void KernelBuilder::dequantize() {
  ofSlot([&](Value token, Value head, Value page, Value position) {
    Value tile = tileOf(pagesOf(kPool, head), page, position),
          inTile = emit.rem(position, kTileTokens);
    Value stored = emit.less(emit.index(0), argument(ARG(stored)));
    Value wide = emit.less(emit.index(0), argument(ARG(f32)));
    for (bool key : {true, false}) {
      const ::kvq::SideMethod &side = key ? method.key : method.value;
      Value target = rowOf(key, token, head);
      auto load = [&] {
        return TileLoadCodesOp::create(emit.builder, emit.loc, row(side.record.dim), tile, inTile,
                                       record, key ? TileSideKind::key : TileSideKind::value);
      };
      auto store = [&](Value row) {
        auto as = [&](Type type) {
          TileStoreRowOp::create(emit.builder, emit.loc, row, target, type);
        };
        emit.when(wide, [&] { as(emit.f32()); });
        emit.when(emit.equal(wide, emit.integer(emit.builder.getI1Type(), 0)),
                  [&] { as(element(side.rows)); });
      };
      emit.when(stored, [&] { store(load()); });
      emit.when(emit.equal(stored, emit.integer(emit.builder.getI1Type(), 0)),
                [&] { store(undoSteps(side, load(), emit.real(emit.f32(), 1))); });
    }
  });
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// append: one token of one KV head. Each side: load the row, the steps of its pipeline, quantize,
// store into the tile.
#include "codegen/conversion/KernelBuilder.h"

#include "codegen/conversion/TileMap.h"
#include "kvq/kernel_abi.h"

#include <algorithm>
#include <cstddef>

#define ARG(field) offsetof(kvq_token_kernel_args, field)

namespace mlir::kvq {

using ::kvq::Step;

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

void KernelBuilder::appendSide(bool key, Value address, Value tile, Value token) {
  const ::kvq::SideMethod &side = key ? method.key : method.value;
  OpBuilder &builder = emit.builder;
  Value row = loadRow(address, side.rows, side.record.dim);
  auto lastMove = std::find_if(side.steps.rbegin(), side.steps.rend(),
                               [](const Step &step) { return step.kind != Step::Kind::clip; });
  size_t moves = side.steps.rend() - lastMove;
  if (moves == 0)
    row = TileSanitizeOp::create(builder, emit.loc, row.getType(), row, element(side.rows));
  for (auto [index, step] : llvm::enumerate(side.steps)) {
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
    if (index + 1 == moves)
      row = TileSanitizeOp::create(builder, emit.loc, row.getType(), row, element(step.result));
  }
  TileSideKind kind = key ? TileSideKind::key : TileSideKind::value;
  auto quantized = TileQuantizeOp::create(builder, emit.loc, fragment(FragmentKind::codes),
                                          fragment(FragmentKind::params), row, record.getSide(kind),
                                          side.round.tie == ::kvq::RoundRule::Tie::half_even,
                                          side.round.source == ::kvq::RoundRule::Source::exact);
  TileStoreCodesOp::create(builder, emit.loc, quantized.getCodes(), tile, token, record, kind);
  TileStoreParamsOp::create(builder, emit.loc, quantized.getParams(), tile, token, record, kind);
}

void KernelBuilder::append() {
  Value heads = argument(ARG(kv_heads));
  Value token = emit.div(item, heads), head = emit.rem(item, heads);
  Value slot =
      emit.load(emit.i64(), emit.offset(pointerArgument(ARG(slots)), emit.mul(token, 8)), 8);
  emit.when(emit.less(emit.index(-1), slot), [&] {
    constants = pointerArgument(ARG(constants));
    layer = argument(ARG(layer));
    constantHead = emit.add(argument(ARG(first_head)), head);
    Value page = argument(ARG(page_tokens));
    Value position = emit.rem(slot, page);
    Value bytes = emit.add(emit.mul(emit.div(slot, page), argument(ARG(page_stride))),
                           emit.mul(head, argument(ARG(head_stride))));
    int64_t tileBytes = ::kvq::buildRecord(record.getSpec()).tileBytes;
    bytes = emit.add(bytes, emit.mul(emit.div(position, kTileTokens), tileBytes));
    Value tile = emit.offset(pointerArgument(ARG(pool)), bytes);
    Value inTile = emit.rem(position, kTileTokens);
    auto rowAddress = [&](size_t base, size_t tokenStride, size_t headStride) {
      Value at =
          emit.add(emit.mul(token, argument(tokenStride)), emit.mul(head, argument(headStride)));
      return emit.offset(pointerArgument(base), at);
    };
    appendSide(true, rowAddress(ARG(k), ARG(k_token_stride), ARG(k_head_stride)), tile, inTile);
    appendSide(false, rowAddress(ARG(v), ARG(v_token_stride), ARG(v_head_stride)), tile, inTile);
  });
}

} // namespace mlir::kvq

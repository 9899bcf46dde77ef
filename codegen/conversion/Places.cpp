// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where pages, tiles and window rows lie, for the kernels that append, move and read them.
#include "codegen/conversion/KernelBuilder.h"

#include "codegen/conversion/TileMap.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::kvq {

Value KernelBuilder::loadIndex(Value address) {
  Value word = emit.load(emit.i32(), address);
  return arith::ExtSIOp::create(emit.builder, emit.loc, emit.i64(), word);
}

Value KernelBuilder::ofSequence(size_t array, Value seq) {
  return loadIndex(emit.offset(pointerArgument(array), emit.mul(seq, 4)));
}

Value KernelBuilder::loadEither(Value pointer, Value other, Value index) {
  Value from = emit.select(isNull(pointer), other, pointer);
  return loadIndex(emit.offset(from, emit.mul(index, 4)));
}

Value KernelBuilder::pageIds(const TableFields &table, Value seq) {
  Value indptr = pointerArgument(table.indptr);
  Value ragged = emit.mul(loadEither(indptr, pointerArgument(table.counts), seq), 4);
  Value begin = emit.select(isNull(indptr), emit.mul(seq, argument(table.stride)), ragged);
  return emit.offset(pointerArgument(table.ids), begin);
}

Value KernelBuilder::pageId(Value ids, Value token, Value pageTokens) {
  return loadIndex(emit.offset(ids, emit.mul(emit.div(token, pageTokens), 4)));
}

KernelBuilder::HeadPages KernelBuilder::pagesOf(const PoolFields &pool, Value head) {
  Value first = emit.mul(head, argument(pool.headStride));
  return {pool.data, first, argument(pool.pageStride)};
}

Value KernelBuilder::pageBytes(const HeadPages &pages, Value page) {
  return emit.add(emit.mul(page, pages.stride), pages.first);
}

Value KernelBuilder::pageOf(const HeadPages &pages, Value page) {
  Value bytes = pageBytes(pages, page);
  return emit.offset(pointerArgument(pages.data), bytes);
}

Value KernelBuilder::tileOf(const HeadPages &pages, Value page, Value position) {
  int64_t tileBytes = ::kvq::buildRecord(record.getSpec()).tileBytes;
  Value bytes = pageBytes(pages, page);
  bytes = emit.add(bytes, emit.mul(emit.div(position, kTileTokens), tileBytes));
  return emit.offset(pointerArgument(pages.data), bytes);
}

Value KernelBuilder::windowRow(Value base, Value pageTokens, Value position, bool key) {
  int64_t element = ::kvq::elementBytes(method.key.storedRows());
  int64_t keyBytes = element * method.key.record.dim,
          valueBytes = element * method.value.record.dim;
  if (key)
    return emit.offset(base, emit.mul(position, keyBytes));
  return emit.offset(emit.offset(base, emit.mul(pageTokens, keyBytes)),
                     emit.mul(position, valueBytes));
}

} // namespace mlir::kvq

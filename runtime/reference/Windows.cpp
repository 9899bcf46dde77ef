// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/reference/Windows.h"

#include "runtime/reference/convert.h"

namespace kvq {
namespace {

/// Keys of all tokens of a page, then values; channels without gaps.
int64_t rowOffset(const CacheMethod &method, int64_t pageTokens, char side, int64_t row) {
  const int64_t keyRow = method.key.record.dim * elementBytes(method.key.storedRows());
  const int64_t valueRow = method.value.record.dim * elementBytes(method.value.storedRows());
  return side == 'k' ? row * keyRow : pageTokens * keyRow + row * valueRow;
}

std::vector<double> windowRow(const SideMethod &side, const uint8_t *bytes) {
  const ElementType type = side.storedRows();
  std::vector<double> row(size_t(side.record.dim));
  for (double &x : row) {
    uint32_t bits = 0;
    std::memcpy(&bits, bytes, size_t(elementBytes(type)));
    x = double(decodeElement(type, bits));
    bytes += elementBytes(type);
  }
  return row;
}

} // namespace

TokenPlace placeOf(const CacheMethod &method, int64_t quantized, int64_t capacity, int64_t token) {
  if (token < method.sink)
    return {Segment::sink, token};
  const int64_t row = token - method.sink;
  if (row < quantized)
    return {Segment::records, row};
  return {Segment::recent, row % capacity};
}

int64_t windowBytes(const CacheMethod &method, int64_t pageTokens) {
  return rowOffset(method, pageTokens, 'v', pageTokens);
}

void putWindowRow(const CacheMethod &method, int64_t pageTokens, uint8_t *page, char side,
                  int64_t row, const std::vector<float> &rotated) {
  const ElementType type = (side == 'k' ? method.key : method.value).storedRows();
  uint8_t *at = page + rowOffset(method, pageTokens, side, row);
  for (float x : rotated) {
    const uint32_t bits = encodeElement(type, x);
    std::memcpy(at, &bits, size_t(elementBytes(type)));
    at += elementBytes(type);
  }
}

std::vector<double> cachedRow(const CacheMethod &method, const RecordLayout &layout,
                              const Constants &constants, RowPlace place, const CachedTokens &cache,
                              int64_t head, char side, int64_t token) {
  const int64_t capacity = int64_t(cache.recent.pages.size()) * cache.recent.tokens;
  const TokenPlace at = placeOf(method, cache.quantized, capacity, token);
  const CachedPages &pages = at.segment == Segment::sink      ? cache.sink
                             : at.segment == Segment::records ? cache.records
                                                              : cache.recent;
  const uint8_t *page = pages.pages[size_t(at.row / pages.tokens)] + head * pages.headStride;
  const int64_t row = at.row % pages.tokens;
  if (at.segment == Segment::records)
    return dequantize(method, layout, constants, place, page, side, row);
  const SideMethod &source = side == 'k' ? method.key : method.value;
  std::vector<double> out = windowRow(source, page + rowOffset(method, pages.tokens, side, row));
  toModelBasis(source, constants, place, out);
  return out;
}

} // namespace kvq

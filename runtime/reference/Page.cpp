// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/reference/Page.h"

#include "kvq/bits.h"

namespace kvq {

uint32_t getElement(const RecordLayout &layout, const uint8_t *page, char side, FieldKind kind,
                    int64_t token, int64_t channel) {
  uint32_t bits = 0;
  for (const Field &field : layout.fields)
    if (field.side == side && field.kind == kind && field.firstChannel <= channel &&
        channel < field.endChannel)
      bits |= readBits(page, bitAddress(field, token, channel), field.width) << field.shift;
  return bits;
}

void putElement(const RecordLayout &layout, uint8_t *page, char side, FieldKind kind, int64_t token,
                int64_t channel, uint32_t bits) {
  for (const Field &field : layout.fields)
    if (field.side == side && field.kind == kind && field.firstChannel <= channel &&
        channel < field.endChannel)
      writeBits(page, bitAddress(field, token, channel), field.width, bits >> field.shift);
}

/// The parameters of a kind; null for a kind that a token does not store.
template <typename Bits> static auto *parametersOf(Bits &bits, FieldKind kind) {
  auto *none = static_cast<decltype(&bits.scale)>(nullptr);
  return kind == FieldKind::scale ? &bits.scale : kind == FieldKind::zero ? &bits.zero : none;
}

void putToken(const RecordLayout &layout, uint8_t *page, char side, int64_t token,
              const TokenBits &bits) {
  const RecordSide &spec = sideOf(layout.spec, side);
  const int group = spec.group ? spec.group : spec.dim;
  for (const Field &field : layout.fields) {
    if (field.side != side)
      continue;
    const std::vector<uint32_t> *parameters = parametersOf(bits, field.kind);
    const int step = parameters ? group : 1;
    for (int channel = field.firstChannel; channel < field.endChannel; channel += step) {
      const uint32_t code = channel < spec.dim ? bits.codes[channel] : 0;
      const uint32_t element = parameters ? (*parameters)[channel / group] : code >> field.shift;
      writeBits(page, bitAddress(field, token, channel), field.width, element);
    }
  }
}

TokenBits getToken(const RecordLayout &layout, const uint8_t *page, char side, int64_t token) {
  const RecordSide &spec = sideOf(layout.spec, side);
  const int group = spec.group ? spec.group : spec.dim;
  TokenBits bits;
  bits.codes.resize(spec.dim);
  for (const Field &field : layout.fields) {
    if (field.side != side)
      continue;
    std::vector<uint32_t> *parameters = parametersOf(bits, field.kind);
    if (parameters)
      parameters->resize(spec.dim / group);
    const int step = parameters ? group : 1, end = std::min(field.endChannel, spec.dim);
    for (int channel = field.firstChannel; channel < end; channel += step) {
      const uint32_t element = readBits(page, bitAddress(field, token, channel), field.width);
      if (parameters)
        (*parameters)[channel / group] = element;
      else
        bits.codes[channel] |= uint8_t(element << field.shift);
    }
  }
  return bits;
}

} // namespace kvq

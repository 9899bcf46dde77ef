// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Deterministic bits for every element of a page; the golden hashes of records are over this
// content.
#pragma once

#include "runtime/reference/Page.h"
#include "runtime/reference/convert.h"
#include "test/support/Lcg.h"

#include <functional>

namespace kvq::test {

namespace content_detail {

/// A number in [-2, 2) for a zero, in [1/4, 5/4) for a scale.
inline uint32_t parameterBits(Lcg &random, FieldKind kind, ElementType type) {
  const double unit = random.uniform();
  const double value = kind == FieldKind::zero ? 4 * unit - 2 : 0.25 + unit;
  return type == ElementType::f16 ? f16Bits(value) : encodeElement(type, float(value));
}

inline void fillParameters(const RecordLayout &layout, uint8_t *page, char side, Lcg &random) {
  using namespace layout_detail;
  const RecordSpec &spec = layout.spec;
  const RecordSide &part = sideOf(spec, side);
  for (FieldKind kind : tokenKinds(part)) {
    const int groups = kind == FieldKind::outer ? 1 : groupsOf(part);
    for (int token = 0; token < spec.page; ++token)
      for (int group = 0; group < groups; ++group)
        putElement(layout, page, side, kind, token, group * (part.dim / groups),
                   parameterBits(random, kind, part.element));
  }
  for (FieldKind kind : channelKinds(part))
    for (int token = 0; token < spec.page; token += spec.block)
      for (int channel = 0; channel < part.dim; ++channel)
        putElement(layout, page, side, kind, token, channel,
                   parameterBits(random, kind, part.element));
}

} // namespace content_detail

/// A page of `layout.stride` bytes: codes of K, codes of V, then the parameters of K and of V, each
/// by token and channel; padding is 0.
inline std::vector<uint8_t> fillPage(const RecordLayout &layout, uint64_t seed = 1) {
  std::vector<uint8_t> page(layout.stride);
  Lcg random(seed);
  for (char side : {'k', 'v'})
    for (int token = 0; token < layout.spec.page; ++token)
      for (int channel = 0; channel < sideOf(layout.spec, side).dim; ++channel)
        putElement(layout, page.data(), side, FieldKind::code, token, channel,
                   random.next() % (1u << sideOf(layout.spec, side).bits));
  for (char side : {'k', 'v'})
    content_detail::fillParameters(layout, page.data(), side, random);
  return page;
}

} // namespace kvq::test

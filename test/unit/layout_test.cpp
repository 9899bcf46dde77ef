// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The record as algebra: who owns which bit, pages as prefixes of larger pages, the rules of the
// verifier, and the converters of published layouts.
#include "kvq/layout.h"

#include "kvq/published.h"
#include "test/support/RecordContent.h"
#include "test/support/Records.h"

#include <gtest/gtest.h>

#include <set>

namespace kvq::test {
namespace {

/// Legal records beyond the golden ones: every head dim against widths, forms, groups and parameter
/// types.
std::vector<NamedRecord> sweep() {
  std::vector<NamedRecord> out = goldenRecords();
  for (int dim : {8, 32, 48, 64, 72, 80, 96, 100, 112, 128, 160, 192, 224, 256, 288, 512, 576})
    for (int bits : {1, 2, 3, 4, 8})
      for (int group : {0, 32, 64, 128})
        for (ParameterForm form : {ParameterForm::min, ParameterForm::sym})
          for (ElementType element : {ElementType::f16, ElementType::f32}) {
            const RecordSpec spec = record(16, side(dim, bits, group, form, element));
            if (verifyRecord(spec).empty())
              out.push_back({"d" + std::to_string(dim) + " b" + std::to_string(bits) + " g" +
                                 std::to_string(group) +
                                 (form == ParameterForm::min ? "" : " sym") +
                                 (element == ElementType::f16 ? "" : " f32"),
                             spec, 0});
          }
  return out;
}

bool broadcastsTokens(const Field &field) {
  return !field.token.empty() && field.token[0].stride == 0;
}

/// First token that owns a byte, per side; -1: none yet.
class Owners {
public:
  explicit Owners(const RecordLayout &layout)
      : nibbleValues(layout.spec.v.packing == CodePacking::nibble), bytes(layout.bytes, -1) {}

  /// False when another token owns the byte. Nibble packing of V shares a byte between u and u + 8.
  bool claim(int64_t byte, const Field &field, int64_t token) {
    if (nibbleValues && field.side == 'v' && field.kind == FieldKind::code)
      token &= ~int64_t(8);
    if (bytes[byte] < 0)
      bytes[byte] = token;
    return bytes[byte] == token;
  }

private:
  bool nibbleValues;
  std::vector<int64_t> bytes;
};

TEST(Layout, FieldsTileTheRecordAndNoByteHasTwoOwners) {
  for (const NamedRecord &record : sweep()) {
    const RecordLayout layout = buildRecord(record.spec);
    std::vector<bool> used(8 * layout.bytes);
    Owners owners(layout);
    int64_t usedBits = 0;
    for (const Field &field : layout.fields) {
      std::set<int64_t> elements;
      for (int64_t token = 0; token < layout.spec.page; ++token)
        for (int channel = field.firstChannel; channel < field.endChannel; ++channel) {
          const int64_t bit = bitAddress(field, token, channel);
          ASSERT_GE(bit, 0);
          ASSERT_LE(bit + field.width, 8 * layout.bytes) << record.name << ' ' << fieldName(field);
          elements.insert(bit);
          if (!broadcastsTokens(field)) {
            ASSERT_TRUE(owners.claim(bit / 8, field, token))
                << record.name << ' ' << fieldName(field) << " byte " << bit / 8;
          }
        }
      for (int64_t bit : elements)
        for (int i = 0; i < field.width; ++i, ++usedBits) {
          ASSERT_FALSE(used[bit + i]) << record.name << ' ' << fieldName(field) << " bit " << bit;
          used[bit + i] = true;
        }
      EXPECT_EQ(int64_t(elements.size()) * field.width, 8 * field.size) << record.name;
    }
    EXPECT_EQ(usedBits, 8 * layout.bytes) << record.name;
  }
}

TEST(Layout, FieldsCoverEveryChannelOnce) {
  for (const NamedRecord &record : sweep()) {
    const RecordLayout layout = buildRecord(record.spec);
    for (char name : {'k', 'v'}) {
      std::vector<int> codeBits(sideOf(layout.spec, name).dim);
      for (const Field &field : layout.fields)
        if (field.side == name && field.kind == FieldKind::code)
          for (int c = field.firstChannel; c < std::min(field.endChannel, int(codeBits.size()));
               ++c)
            codeBits[c] |= ((1 << field.width) - 1) << field.shift;
      for (int bits : codeBits)
        EXPECT_EQ(bits, (1 << sideOf(layout.spec, name).bits) - 1) << record.name;
    }
  }
}

TEST(Layout, SizesFollowTheFormula) {
  for (const NamedRecord &named : sweep()) {
    const RecordSpec &spec = named.spec;
    if (spec.block != kTileTokens || spec.v.bits == 1 || spec.v.bits == 3)
      continue; // channel parameters and the wider padding of 1-bit planes are in the golden sizes
    int64_t tile = 0;
    for (const RecordSide &side : {spec.k, spec.v}) {
      const int fields = int(layout_detail::formKinds(side.form).size());
      tile += 2 * layout_detail::roundUp(side.dim, 32) * side.bits +
              16 * elementBytes(side.element) * fields * layout_detail::groupsOf(side);
    }
    EXPECT_EQ(buildRecord(spec).tileBytes, tile) << named.name;
  }
}

TEST(Layout, BitsPerElementCountsEverything) {
  EXPECT_DOUBLE_EQ(bitsPerElement(buildRecord(record(64, side(128)))), 2.25);
  EXPECT_DOUBLE_EQ(bitsPerElement(buildRecord(record(64, side(128, 4)))), 4.25);
  EXPECT_DOUBLE_EQ(bitsPerElement(buildRecord(record(64, side(80)))), 2.8);
  const RecordSide symmetric = side(128, 2, 0, ParameterForm::sym);
  EXPECT_DOUBLE_EQ(bitsPerElement(buildRecord(record(32, symmetric))), 2.125);
  const RecordLayout padded = buildRecord(record(16, symmetric));
  EXPECT_EQ(padded.bytes, 1088);
  EXPECT_EQ(padded.stride, 1152);
  EXPECT_DOUBLE_EQ(bitsPerElement(padded), 2.25);
}

TEST(Layout, PageIsItsTilesOneAfterAnother) {
  for (const RecordSide &both : {side(128, 2, 32), side(80), side(96, 4), side(128, 3)}) {
    const RecordLayout large = buildRecord(record(128, both)),
                       small = buildRecord(record(16, both));
    const std::vector<uint8_t> page = fillPage(large);
    ASSERT_EQ(large.bytes, 8 * small.bytes);
    for (int tile = 0; tile < 8; ++tile) {
      std::vector<uint8_t> part(small.stride);
      for (char name : {'k', 'v'})
        for (int token = 0; token < 16; ++token)
          putToken(small, part.data(), name, token,
                   getToken(large, page.data(), name, 16 * tile + token));
      EXPECT_TRUE(
          std::equal(part.begin(), part.begin() + small.bytes, page.begin() + tile * small.bytes));
    }
  }
}

TEST(Layout, TokensMayBeWrittenInAnyOrderAndTwice) {
  const RecordLayout layout = buildRecord(record(32, side(96, 4), side(128, 2, 32)));
  const std::vector<uint8_t> page = fillPage(layout);
  std::vector<uint8_t> copy(layout.stride, 0xff), other = fillPage(layout, 2);
  std::fill(copy.begin() + layout.bytes, copy.end(), 0);
  for (char name : {'v', 'k'}) {
    for (int token = 31; token >= 0; --token)
      putToken(layout, copy.data(), name, token, getToken(layout, other.data(), name, token));
    for (int i = 0; i < 32; ++i)
      putToken(layout, copy.data(), name, i * 5 % 32,
               getToken(layout, page.data(), name, i * 5 % 32));
  }
  EXPECT_EQ(copy, page);
}

TEST(Layout, VerifierNamesWhatItExpectedAndGot) {
  auto both = [](auto change) {
    RecordSpec spec = record(64, side(128));
    change(spec);
    return verifyRecord(spec);
  };
  EXPECT_EQ(both([](RecordSpec &) {}), "");
  EXPECT_EQ(both([](RecordSpec &s) { s.page = 24; }),
            "expected a page that is a multiple of 16 tokens, got 24");
  EXPECT_EQ(both([](RecordSpec &s) { s.page = 0; }),
            "expected a page that is a multiple of 16 tokens, got 0");
  EXPECT_EQ(both([](RecordSpec &s) { s.block = 24; }),
            "expected a block that is a multiple of 16 tokens, got 24");
  EXPECT_EQ(both([](RecordSpec &s) { s.block = 32; }),
            "expected a block of 16 tokens without channel parameters, got 32");
  EXPECT_EQ(both([](RecordSpec &s) { s.k.dim = 577; }),
            "key: expected a head dim of 1 to 576, got 577");
  EXPECT_EQ(both([](RecordSpec &s) { s.v.dim = -1; }),
            "value: expected a head dim of 1 to 576, got -1");
  EXPECT_EQ(both([](RecordSpec &s) { s.v.bits = 5; }),
            "value: expected 1, 2, 3, 4 or 8 bits, got 5");
  EXPECT_EQ(both([](RecordSpec &s) { s.k.group = 48; }),
            "key: expected a group that is a multiple of 32 and divides the head dim 128, got 48");
  EXPECT_EQ(both([](RecordSpec &s) { s.k.group = 16; }),
            "key: expected a group that is a multiple of 32 and divides the head dim 128, got 16");
  EXPECT_EQ(both([](RecordSpec &s) { s.k.group = -32; }),
            "key: expected a group that is a multiple of 32 and divides the head dim 128, got -32");
  EXPECT_EQ(both([](RecordSpec &s) { s.k.bits = 4, s.k.packing = CodePacking::nibble; }),
            "key: expected 2 bits with nibble packing, got 4");
  EXPECT_EQ(both([](RecordSpec &s) { s.k.axis = ParameterAxis::channel, s.k.group = 32; }),
            "key: expected no channel groups beside channel parameters (the head dim 128), got 32");
}

TEST(Published, KnownBytes) {
  struct Case {
    PublishedOrder order;
    std::vector<uint8_t> cyclic, blocked; // of codes i mod 4, and i div 4
  };
  const std::vector<uint8_t> ramp = {0x00, 0x55, 0xaa, 0xff}, flat(4, 0xe4);
  for (const Case &c :
       {Case{PublishedOrder::oscar, ramp, flat}, Case{PublishedOrder::channels, flat, ramp},
        Case{PublishedOrder::tokens, flat, ramp}}) {
    const bool tokens = c.order == PublishedOrder::tokens;
    const Field field = publishedCodes(c.order, 'k', tokens ? 1 : 16, 2, tokens ? 16 : 1);
    ASSERT_EQ(field.size, 4);
    std::vector<uint8_t> cyclic(4), blocked(4);
    for (int i = 0; i < 16; ++i) {
      const int64_t bit = tokens ? bitAddress(field, i, 0) : bitAddress(field, 0, i);
      writeBits(cyclic.data(), bit, 2, i % 4);
      writeBits(blocked.data(), bit, 2, i / 4);
    }
    EXPECT_EQ(cyclic, c.cyclic);
    EXPECT_EQ(blocked, c.blocked);
  }
  std::vector<uint8_t> nibbles(4);
  const Field field = publishedCodes(PublishedOrder::channels, 'v', 8, 4, 1);
  for (int i = 0; i < 8; ++i)
    writeBits(nibbles.data(), bitAddress(field, 0, i), 4, i);
  EXPECT_EQ(nibbles, (std::vector<uint8_t>{0x10, 0x32, 0x54, 0x76}));
}

TEST(Published, ConvertsBothWays) {
  for (int bits : {2, 4})
    for (int dim : {96, 128}) {
      const RecordLayout layout = buildRecord(record(32, side(dim, bits)));
      const std::vector<uint8_t> page = fillPage(layout);
      for (PublishedOrder order :
           {PublishedOrder::oscar, PublishedOrder::channels, PublishedOrder::tokens})
        for (char name : {'k', 'v'}) {
          const Field outside = publishedCodes(order, name, dim, bits, 32);
          std::vector<uint8_t> codes(outside.size), back = page;
          for (const Field &field : layout.fields)
            if (field.side == name && field.kind == FieldKind::code) {
              convertField(field, page.data(), outside, codes.data(), 32);
              for (int64_t token = 0; token < 32; ++token)
                for (int channel = field.firstChannel; channel < field.endChannel; ++channel)
                  writeBits(back.data(), bitAddress(field, token, channel), bits, 0);
            }
          EXPECT_NE(back, page);
          for (const Field &field : layout.fields)
            if (field.side == name && field.kind == FieldKind::code)
              convertField(outside, codes.data(), field, back.data(), 32);
          EXPECT_EQ(back, page);
        }
    }
}

using Offsets = std::vector<std::pair<std::string, int64_t>>;

/// Name and offset of each parameter field, in the order of the record.
Offsets parameterOffsets(const RecordSpec &spec) {
  Offsets offsets;
  for (const Field &field : buildRecord(spec).fields)
    if (field.kind != FieldKind::code)
      offsets.emplace_back(fieldName(field), field.offset);
  return offsets;
}

/// Offsets of the golden model: V's fields of four groups (16 bytes a row) come before K's of one
/// group (4 bytes).
TEST(Layout, WiderParameterRunsComeFirst) {
  EXPECT_EQ(parameterOffsets(record(64, side(128), side(128, 2, 32))),
            (Offsets{{"v.scale", 1024}, {"v.zero", 1152}, {"k.scale", 1280}, {"k.zero", 1284}}));
}

/// Offsets of the golden model: per token one outer scale, however many groups there are; per
/// channel the outer scales follow the parameters of their side.
TEST(Layout, OuterScales) {
  RecordSide groups = side(128, 2, 32), channels = side(128), tokens = side(128);
  groups.outer = tokens.outer = OuterScale::token;
  channels.axis = ParameterAxis::channel;
  channels.outer = OuterScale::channel;
  EXPECT_EQ(parameterOffsets(record(64, groups, side(128))), (Offsets{{"k.scale", 1024},
                                                                      {"k.zero", 1152},
                                                                      {"k.outer", 1280},
                                                                      {"v.scale", 1284},
                                                                      {"v.zero", 1344}}));
  EXPECT_EQ(parameterOffsets(record(64, channels, tokens)), (Offsets{{"k.scale", 0},
                                                                     {"k.zero", 256},
                                                                     {"k.outer", 512},
                                                                     {"v.scale", 1792},
                                                                     {"v.zero", 1796},
                                                                     {"v.outer", 1856}}));
}

} // namespace
} // namespace kvq::test

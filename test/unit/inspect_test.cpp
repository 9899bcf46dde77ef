// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kvq-inspect says of the bytes of a record, against layout.h and the operands that GPU
// kernels load.
#include "codegen/conversion/gpu/FragmentMap.h"
#include "runtime/format/method.h"
#include "test/support/Records.h"
#include "tools/kvq-inspect/ByteMap.h"
#include "tools/kvq-inspect/DrawRecord.h"
#include "tools/kvq-inspect/Report.h"
#include "tools/kvq-inspect/Table.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

namespace kvq::test {
namespace {

using mlir::kvq::FragmentMap;
using mlir::kvq::LaneVector;

TEST(ByteMap, EveryElementLiesWhereTheLayoutPutsIt) {
  for (const NamedRecord &named : goldenRecords()) {
    SCOPED_TRACE(named.name);
    const RecordLayout layout = buildRecord(named.spec);
    const std::vector<RecordByte> bytes = mapBytes(layout);
    ASSERT_EQ(int64_t(bytes.size()), layout.stride);
    for (size_t index = 0; index < layout.fields.size(); ++index) {
      const Field &field = layout.fields[index];
      for (int token = 0; token < layout.spec.page; ++token)
        for (int channel = field.firstChannel; channel < field.endChannel; ++channel) {
          const int64_t bit = bitAddress(field, token, channel);
          for (int64_t at = bit / 8; at <= (bit + field.width - 1) / 8; ++at)
            ASSERT_EQ(bytes[size_t(at)].field, int(index))
                << fieldName(field) << " token " << token << " channel " << channel;
        }
    }
  }
}

/// Bits of a byte that its elements cover, each once; parameters cover all with each element.
uint32_t bitsOf(const Field &field, const RecordByte &byte) {
  uint32_t bits = 0;
  for (const ByteElement &element : byte.elements) {
    if (field.kind != FieldKind::code) {
      EXPECT_EQ(element.bit, byte.elements.front().bit) << "one parameter in a byte";
      return 0xff;
    }
    const uint32_t own = ((1u << field.width) - 1) << element.bit;
    EXPECT_EQ(bits & own, 0u) << "two codes in one bit";
    bits |= own;
  }
  return bits;
}

TEST(ByteMap, EveryByteIsOfOneFieldOrPadding) {
  for (const NamedRecord &named : goldenRecords()) {
    SCOPED_TRACE(named.name);
    const RecordLayout layout = buildRecord(named.spec);
    const std::vector<RecordByte> bytes = mapBytes(layout);
    std::vector<int64_t> sizes(layout.fields.size());
    for (size_t at = 0; at < bytes.size(); ++at) {
      const RecordByte &byte = bytes[at];
      ASSERT_EQ(byte.field < 0, int64_t(at) >= layout.bytes) << "byte " << at;
      if (byte.field < 0)
        continue;
      const Field &field = layout.fields[size_t(byte.field)];
      ++sizes[size_t(byte.field)];
      ASSERT_EQ(bitsOf(field, byte), 0xffu) << "byte " << at;
      for (const ByteElement &element : byte.elements)
        ASSERT_EQ(bitAddress(field, element.token, element.channel), 8 * int64_t(at) + element.bit);
    }
    for (size_t i = 0; i < sizes.size(); ++i)
      EXPECT_EQ(sizes[i], layout.fields[i].size) << fieldName(layout.fields[i]);
  }
}

void expectLanes(const RecordLayout &layout, const std::vector<RecordByte> &bytes,
                 const FragmentMap &map) {
  for (int64_t tile = 0; tile < layout.spec.page / kTileTokens; ++tile)
    for (const std::vector<LaneVector> *vectors : {&map.keyVectors, &map.valueVectors})
      for (const LaneVector &vector : *vectors)
        for (int at = 0; at < 32 * vector.bytes; ++at)
          ASSERT_EQ(bytes[size_t(tile * map.tileBytes + vector.offset + at)].lanes,
                    1u << at / vector.bytes)
              << "tile " << tile << " vector at " << vector.offset << " byte " << at;
  for (bool key : {true, false})
    for (const auto *places : {&map.params(key).scale, &map.params(key).zero})
      for (const auto &group : *places)
        for (int token = 0; token < kTileTokens; ++token) {
          const mlir::kvq::ParamPlace &place = group[size_t(token / 8)];
          const RecordByte &byte = bytes[size_t(place.offset + token % 8 * place.rowStride)];
          ASSERT_EQ(byte.lanes, 0xfu << 4 * (token % 8));
          ASSERT_EQ(tokensOf(byte), std::vector<int>{token});
        }
}

TEST(ByteMap, LanesAreThoseOfTheKernels) {
  int compared = 0;
  for (const NamedRecord &named : goldenRecords()) {
    SCOPED_TRACE(named.name);
    const RecordLayout layout = buildRecord(named.spec);
    const std::vector<RecordByte> bytes = mapBytes(layout);
    for (const RecordByte &byte : bytes)
      if (byte.field >= 0 && layout.fields[size_t(byte.field)].kind == FieldKind::code) {
        ASSERT_EQ(lanesOf(byte).size(), 1u);
      }
    FragmentMap map;
    if (!FragmentMap::build(named.spec, map).empty())
      continue; // no kernel of a GPU reads it
    expectLanes(layout, bytes, map);
    ++compared;
  }
  EXPECT_GE(compared, 15);
}

/// Channel parameters: K is read by the lanes of a column t, V by those of a row g.
TEST(ByteMap, LanesOfChannelParameters) {
  RecordSide key = side(128), value = side(128);
  key.axis = value.axis = ParameterAxis::channel;
  const RecordLayout layout = buildRecord(record(64, key, value, 32));
  const std::vector<RecordByte> bytes = mapBytes(layout);
  for (const Field &field : layout.fields) {
    if (field.kind == FieldKind::code)
      continue;
    for (int channel = field.firstChannel; channel < field.endChannel; ++channel) {
      const RecordByte &byte = bytes[size_t(bitAddress(field, 5, channel) / 8)];
      const uint32_t expected =
          field.side == 'k' ? 0x11111111u << channel / 4 % 4 : 0xfu << 4 * (channel % 8);
      EXPECT_EQ(byte.lanes, expected) << fieldName(field) << " channel " << channel;
      EXPECT_EQ(tokensOf(byte).size(), 32u);
      EXPECT_EQ(channelsOf(byte), std::vector<int>{channel});
    }
  }
}

TEST(ByteMap, Texts) {
  const RecordLayout layout = buildRecord(record(64, side(128)));
  const std::vector<RecordByte> bytes = mapBytes(layout);
  EXPECT_EQ(byteText(layout, bytes, 0),
            "byte 0: k.code u2, bits 0-1 token 0 channel 0, bits 2-3 token 0 channel 32, bits 4-5 "
            "token 0 channel 64, bits 6-7 token 0 channel 96, lane 0");
  EXPECT_EQ(byteText(layout, bytes, 1025),
            "byte 1025: k.scale f16 (byte 1 of 2), token 0, channels 0-127, lanes 0-3");
  EXPECT_EQ(shortText({}), "");
  EXPECT_EQ(shortText({7}), "7");
  EXPECT_EQ(shortText({3, 4, 5}), "3-5");
  EXPECT_EQ(shortText({5, 37, 69}), "5+32");
  EXPECT_EQ(shortText({1, 2, 90}), "1..90");
}

TEST(ByteMap, TextsOfPlanesAndPadding) {
  const RecordLayout three = buildRecord(record(16, side(80, 3)));
  const std::vector<RecordByte> bytes = mapBytes(three);
  bool plane = false, padded = false;
  for (int64_t at = 0; at < three.stride; ++at) {
    const std::string text = byteText(three, bytes, at);
    plane |= text.find("k.code u1 shifted by 2, bit 0 token") != std::string::npos;
    padded |= text.find("channel 80 (padding)") != std::string::npos;
    EXPECT_EQ(text.find("channel 79 (padding)"), std::string::npos);
  }
  EXPECT_TRUE(plane);
  EXPECT_TRUE(padded);
  const RecordLayout sym = buildRecord(record(16, side(128, 2, 0, ParameterForm::sym)));
  EXPECT_EQ(byteText(sym, mapBytes(sym), sym.stride - 1), "byte 1151: padding");
}

TEST(DrawRecord, ACellForEachByte) {
  for (const NamedRecord &named : goldenRecords()) {
    SCOPED_TRACE(named.name);
    const RecordLayout layout = buildRecord(named.spec);
    const std::vector<RecordByte> bytes = mapBytes(layout);
    const std::string picture = drawRecord(layout, named.name);
    const std::regex cell(
        R"re(<g class="([^"]*)"><title>([^<]*)</title><rect x="(\d+)" y="(\d+)")re");
    std::set<std::pair<int, int>> places;
    int64_t at = 0;
    for (std::sregex_iterator match(picture.begin(), picture.end(), cell), end; match != end;
         ++match, ++at) {
      ASSERT_LT(at, layout.stride);
      ASSERT_EQ((*match)[2], byteText(layout, bytes, at));
      const int field = bytes[size_t(at)].field;
      std::string name = field < 0 ? "padding" : fieldName(layout.fields[size_t(field)]);
      ASSERT_EQ((*match)[1], std::regex_replace(name, std::regex("\\."), "-"));
      places.insert({std::stoi((*match)[4].str()), std::stoi((*match)[3].str())});
    }
    EXPECT_EQ(at, layout.stride);
    EXPECT_EQ(int64_t(places.size()), layout.stride) << "two cells in one place";
  }
}

TEST(DrawRecord, NamesNeedNoCare) {
  const std::string picture = drawRecord(buildRecord(record(16, side(32))), "a<b>&c\n");
  EXPECT_NE(picture.find("record of a&lt;b&gt;&amp;c : page"), std::string::npos);
}

Report libraryReport(const std::string &manifest) {
  CacheMethod method;
  method.name = "c", method.q_heads = method.kv_heads = 1, method.attention.scale = 1;
  method.key.record = method.value.record = side(64);
  LibraryContents contents;
  contents.manifest = manifest;
  contents.formats = {{methodText(method), ""}};
  contents.layers = {{0, 0}, {0, 0}, {-1, 0}};
  contents.objects = {"code"};
  LibraryKernel kernel;
  kernel.symbol = "kvq_append", kernel.level = "x86-64";
  contents.kernels = {kernel};
  std::string bytes;
  EXPECT_EQ(libraryBytes(contents, bytes), "");
  FileBytes file;
  EXPECT_EQ(FileBytes::copy({bytes.data(), bytes.size()}, file), "");
  LibraryView view;
  EXPECT_EQ(parseLibrary(file.span(), view), "");
  Report report = {{"file", "f"}}, found;
  EXPECT_EQ(reportLibrary(file.span(), view, found), "");
  report.update(found);
  return report;
}

TEST(LibraryTable, Windows) {
  Report report = libraryReport("{}");
  EXPECT_EQ(libraryTable(report).find("windows"), std::string::npos);
  report["formats"][0]["sink"] = 64, report["formats"][0]["recent"] = 256;
  EXPECT_NE(
      libraryTable(report).find("\n  windows    first 64 and last 256 tokens in high precision\n"),
      std::string::npos);
}

/// The runtime does not read the manifest; nor may a tool trust it.
TEST(LibraryTable, AnyManifest) {
  for (const char *manifest : {"", "not JSON", "[]", "7", R"({"compiler": 3, "kernels": 4})",
                               R"({"compiler": {"kvq": []}, "kernels": [1, {"symbol": 2}]})"}) {
    const Report report = libraryReport(manifest);
    EXPECT_TRUE(report["kernels"][0]["registers"].is_null());
    const std::string table = libraryTable(report);
    // Layers that share their constants do not follow each other.
    EXPECT_NE(table.find("\n0            0  @c             0\n1            0  @c             0\n"),
              std::string::npos)
        << table;
  }
  const Report report = libraryReport(
      R"({"kernels": [{"symbol": "kvq_append", "target": "cpu", "format": 0, "registers": 9}]})");
  EXPECT_EQ(report["kernels"][0]["registers"], 9);
}

TEST(Table, Columns) {
  Table table({"name", ">bytes", "note"});
  table.add({"a", "1024", ""});
  table.add({"longer", "7", "x"});
  EXPECT_EQ(table.text(), "name    bytes  note\n"
                          "a        1024\n"
                          "longer      7  x\n");
}

} // namespace
} // namespace kvq::test

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operands that a GPU kernel takes out of a tile by FragmentMap, put through an emulation of
// its instructions: the sums must be those of the codes, token by token and channel by channel.
#include "codegen/conversion/gpu/FragmentMap.h"
#include "test/support/RecordContent.h"
#include "test/support/Records.h"
#include "test/unit/WarpEmulator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace kvq::test {
namespace {

using mlir::kvq::FragmentMap;
using mlir::kvq::LaneVector;
using mlir::kvq::ParamPlace;
using mlir::kvq::RegisterPlace;

constexpr int kQueries = 4;
/// The query as an integer: 256 hi + lo, hi and lo signed bytes. With head dims up to 256 the dot
/// fits 32 bits.
constexpr int kMaxQuery = 127 * 256;

/// Lane vectors of a tile, as words: [vector][word].
std::vector<std::vector<Lanes>> loadVectors(const uint8_t *tile,
                                            const std::vector<LaneVector> &vectors) {
  std::vector<std::vector<Lanes>> words;
  for (const LaneVector &vector : vectors) {
    EXPECT_EQ(vector.offset % vector.bytes, 0) << "a vector load must be aligned";
    std::vector<Lanes> &loaded = words.emplace_back(vector.bytes / 4);
    for (int lane = 0; lane < 32; ++lane)
      for (int word = 0; word < vector.bytes / 4; ++word)
        std::memcpy(&loaded[word][lane], tile + vector.offset + lane * vector.bytes + 4 * word, 4);
  }
  return words;
}

/// The codes of a key register: 2-bit codes times 64, 4- and 8-bit codes as they are.
uint32_t keyCodes(uint32_t word, const RegisterPlace &place, int bits) {
  if (bits == 8)
    return word;
  if (bits == 4)
    return word >> 4 * place.slot & 0x0f0f0f0f;
  auto top = [&](int slot) { return word << (6 - 2 * slot); };
  if (place.half < 0)
    return top(place.slot) & 0xc0c0c0c0;
  return permuteBytes(top(place.slot), top(place.slot + 1), place.half ? 0x7632 : 0x5410) &
         0xc0c0c0c0;
}

/// The codes of a value register, times 2^(bits * slot).
uint32_t valueCodes(uint32_t word, const RegisterPlace &place, int bits) {
  return word & 0x01010101u * (((1u << bits) - 1) << bits * place.slot);
}

/// What a page says about itself through its layout.
class Page {
public:
  Page(const RecordSpec &spec, uint64_t seed)
      : layout(buildRecord(spec)), bytes(fillPage(layout, seed)) {}

  const uint8_t *tile(int index) const { return bytes.data() + index * layout.tileBytes; }
  int tiles() const { return layout.spec.page / kTileTokens; }

  int64_t code(char side, int tile, int token, int channel) const {
    const uint32_t bits = element(side, FieldKind::code, tile, token, channel);
    return sideOf(layout.spec, side).bits == 8 ? int8_t(bits) : int64_t(bits);
  }
  uint32_t element(char side, FieldKind kind, int tile, int token, int channel) const {
    return getElement(layout, bytes.data(), side, kind, kTileTokens * tile + token, channel);
  }

  RecordLayout layout;

private:
  std::vector<uint8_t> bytes;
};

/// Rows of four queries within their range; the ends of the range occur.
std::vector<std::vector<int>> drawQueries(int dim, Lcg &random) {
  std::vector<std::vector<int>> queries(kQueries, std::vector<int>(dim));
  for (std::vector<int> &row : queries)
    for (int &q : row)
      q = random.next() % 8 == 0 ? kMaxQuery * (int(random.next() % 3) - 1)
                                 : int(random.next() % (2 * kMaxQuery + 1)) - kMaxQuery;
  return queries;
}

/// B registers of k-step `step`: column 2 j has the high parts of query j, column 2 j + 1 the low.
std::array<Lanes, 2> queryFragment(const std::vector<std::vector<int>> &queries, int step) {
  std::array<Lanes, 2> b{};
  for (int lane = 0; lane < 32; ++lane)
    for (int h = 0; h < 2; ++h)
      for (int j = 0; j < 4; ++j) {
        const int q = queries[lane / 8][32 * step + 16 * h + lane % 4 * 4 + j];
        const int high = (q + 128) >> 8, low = q - 256 * high;
        EXPECT_TRUE(-128 <= high && high < 128 && -128 <= low && low < 128) << q;
        b[h][lane] |= uint32_t(uint8_t(lane / 4 % 2 ? low : high)) << 8 * j;
      }
  return b;
}

/// Integer dots of one tile, group by group, against the codes.
void checkDots(const FragmentMap &map, const Page &page, int tile, Lcg &random) {
  const RecordSide &side = page.layout.spec.k;
  const auto queries = drawQueries(side.dim, random);
  const auto words = loadVectors(page.tile(tile), map.keyVectors);
  ASSERT_EQ(map.keySteps.size(), size_t(side.dim / 32));
  const int perGroup = static_cast<int>(map.groupSize(/*key=*/true)) / 32;
  for (int group = 0; group < map.groups(/*key=*/true); ++group) {
    std::array<Lanes, 4> sums{};
    for (int step = group * perGroup; step < (group + 1) * perGroup; ++step) {
      std::array<Lanes, 4> a;
      for (int i = 0; i < 4; ++i)
        for (int lane = 0; lane < 32; ++lane) {
          const RegisterPlace &place = map.keySteps[step][i];
          a[i][lane] = keyCodes(words[place.vector][place.word][lane], place, side.bits);
        }
      multiplyMatrices(sums, a, queryFragment(queries, step), side.bits == 8, /*bSigned=*/true);
    }
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < 2; ++r) {
        int64_t expected = 0;
        for (int channel = 32 * perGroup * group; channel < 32 * perGroup * (group + 1); ++channel)
          expected += queries[lane % 4][channel] * page.code('k', tile, lane / 4 + 8 * r, channel) *
                      (side.bits == 2 ? 64 : 1);
        const auto got = int32_t(sums[2 * r][lane] * 256 + sums[2 * r + 1][lane]);
        ASSERT_EQ(got, expected) << "group " << group << " lane " << lane << " r " << r;
      }
  }
}

/// 16-bit weights of four queries over the tokens of a tile; both ends occur.
using Weights = std::array<std::array<uint32_t, kTileTokens>, kQueries>;

Weights drawWeights(Lcg &random) {
  Weights weights;
  for (auto &row : weights)
    for (uint32_t &weight : row)
      weight = random.next() % 8 == 0 ? random.next() % 2 * 65535 : random.next() % 65536;
  return weights;
}

/// The B register of 16 tokens. A lane makes the weights of query t for tokens g and g + 8, each as
/// the float 2^23 + weight.
Lanes weightFragment(const Weights &weights) {
  Lanes parts;
  for (int lane = 0; lane < 32; ++lane) {
    uint32_t bits[2];
    for (int r = 0; r < 2; ++r) {
      const float magic = 8388608.0f + float(weights[lane % 4][lane / 4 + 8 * r]);
      std::memcpy(&bits[r], &magic, 4);
    }
    parts[lane] = permuteBytes(bits[0], bits[1], 0x4051);
  }
  return transposeMatrix(parts);
}

/// Integer outputs of two tiles of two pages in one step, against the codes.
void checkOutputs(const FragmentMap &map, const std::array<const Page *, 2> &pages, int tile,
                  Lcg &random) {
  const RecordSide &side = pages[0]->layout.spec.v;
  const std::array<Weights, 2> weights = {drawWeights(random), drawWeights(random)};
  const std::array<Lanes, 2> b = {weightFragment(weights[0]), weightFragment(weights[1])};
  std::array<std::vector<std::vector<Lanes>>, 2> words;
  for (int half = 0; half < 2; ++half)
    words[half] = loadVectors(pages[half]->tile(tile), map.valueVectors);
  ASSERT_EQ(map.valueTiles.size(), size_t(side.dim / 16));
  for (int mTile = 0; mTile < side.dim / 16; ++mTile) {
    std::array<Lanes, 4> a, sums{};
    for (int i = 0; i < 4; ++i)
      for (int lane = 0; lane < 32; ++lane) {
        const RegisterPlace &place = map.valueTiles[mTile][i % 2];
        a[i][lane] = valueCodes(words[i / 2][place.vector][place.word][lane], place, side.bits);
      }
    multiplyMatrices(sums, a, b, side.bits == 8, /*bSigned=*/false);
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < 2; ++r) {
        const int channel = 16 * mTile + 8 * r + lane / 4;
        int64_t expected = 0;
        for (int half = 0; half < 2; ++half)
          for (int token = 0; token < kTileTokens; ++token)
            expected += int64_t(weights[half][lane % 4][token]) *
                        pages[half]->code('v', tile, token, channel);
        expected *= int64_t(1) << side.bits * map.valueTiles[mTile][r].slot;
        const int64_t got =
            int64_t(int32_t(sums[2 * r][lane])) * 256 + int32_t(sums[2 * r + 1][lane]);
        ASSERT_EQ(got, expected) << "channel " << channel << " query " << lane % 4;
      }
  }
}

/// Parameters of both sides of one tile, element by element.
void checkParams(const FragmentMap &map, const Page &page, int tile) {
  for (char name : {'k', 'v'}) {
    const bool key = name == 'k';
    const int bytes = elementBytes(sideOf(page.layout.spec, name).element);
    auto check = [&](FieldKind kind, const std::vector<std::array<ParamPlace, 2>> &places) {
      for (size_t group = 0; group < places.size(); ++group)
        for (int token = 0; token < kTileTokens; ++token) {
          const ParamPlace &place = places[group][token / 8];
          ASSERT_EQ(place.rowStride % 4, 0) << "elements are taken out of whole words";
          ASSERT_EQ(place.offset % bytes, 0);
          uint32_t got = 0;
          std::memcpy(&got, page.tile(tile) + place.offset + token % 8 * place.rowStride, bytes);
          const int channel = static_cast<int>(group * map.groupSize(key));
          ASSERT_EQ(got, page.element(name, kind, tile, token, channel))
              << name << " group " << group << " token " << token;
        }
    };
    const auto &params = map.params(key);
    const bool hasZero = sideOf(page.layout.spec, name).form != ParameterForm::sym;
    ASSERT_EQ(params.scale.size(), size_t(map.groups(key)));
    ASSERT_EQ(params.zero.size(), hasZero ? size_t(map.groups(key)) : 0);
    check(FieldKind::scale, params.scale);
    check(FieldKind::zero, params.zero);
  }
}

/// Every tile of two pages of `spec`.
void checkRecord(const RecordSpec &spec, uint64_t seed) {
  ASSERT_EQ(verifyRecord(spec), "");
  FragmentMap map;
  ASSERT_EQ(FragmentMap::build(spec, map), "");
  const Page page(spec, 1), other(spec, 2);
  ASSERT_EQ(map.tileBytes, page.layout.tileBytes);
  ASSERT_EQ(map.tileBytes % 32, 0) << "each tile must be aligned for vector loads";
  Lcg random(seed);
  for (int tile = 0; tile < page.tiles() && !testing::Test::HasFatalFailure(); ++tile) {
    SCOPED_TRACE("tile " + std::to_string(tile));
    checkDots(map, page, tile, random);
    checkOutputs(map, {&page, &other}, tile, random);
    checkParams(map, page, tile);
  }
}

TEST(FragmentMap, EveryHeadDimAndWidth) {
  for (int dim = 32; dim <= 256; dim += 32)
    for (int bits : {2, 4, 8}) {
      SCOPED_TRACE("dim " + std::to_string(dim) + " bits " + std::to_string(bits));
      checkRecord(record(32, side(dim, bits)), dim + bits);
    }
}

TEST(FragmentMap, GroupsFormsAndTypes) {
  const ParameterForm forms[] = {ParameterForm::min, ParameterForm::zero, ParameterForm::sym};
  const ElementType types[] = {ElementType::f16, ElementType::bf16, ElementType::f32};
  int next = 0;
  for (int dim : {64, 96, 128, 192, 256})
    for (int bits : {2, 4, 8})
      for (int group : {32, 64, 128}) {
        if (dim % group || dim == group)
          continue;
        const ParameterForm form = forms[next % 3];
        const ElementType type = types[next / 3 % 3];
        SCOPED_TRACE("dim " + std::to_string(dim) + " bits " + std::to_string(bits) + " group " +
                     std::to_string(group) + " case " + std::to_string(next));
        checkRecord(record(16, side(dim, bits, group, form, type)), ++next);
      }
}

/// K and V differ in dim, width, groups, form and type.
TEST(FragmentMap, SidesThatDiffer) {
  const RecordSide sides[] = {side(192, 2),
                              side(128, 4, 32, ParameterForm::zero, ElementType::f32),
                              side(96, 8, 0, ParameterForm::sym),
                              side(160, 4, 0, ParameterForm::min, ElementType::bf16),
                              side(224, 2, 32, ParameterForm::sym, ElementType::f32),
                              side(32, 2)};
  for (const RecordSide &k : sides)
    for (const RecordSide &v : sides) {
      SCOPED_TRACE("key " + std::to_string(k.dim) + " value " + std::to_string(v.dim));
      checkRecord(record(16, k, v), k.dim + v.dim);
    }
}

/// The pages whose bytes the golden digests are over.
TEST(FragmentMap, GoldenRecords) {
  const std::set<std::string> refused = {"d128_b3_p64",          "d128_b2_norm_nibble_p64",
                                         "kivi_d128_b2_g32_p64", "kvarn_d128_k4v2_p128",
                                         "d80_b2_p64",           "d112_b2_p64"};
  for (const NamedRecord &golden : goldenRecords()) {
    SCOPED_TRACE(golden.name);
    FragmentMap map;
    const std::string reason = FragmentMap::build(golden.spec, map);
    EXPECT_EQ(reason.empty(), refused.count(golden.name) == 0) << reason;
    if (reason.empty())
      checkRecord(golden.spec, 3);
  }
}

TEST(FragmentMap, RefusalsNameWhatIsExpected) {
  struct {
    const char *message;
    void (*change)(RecordSpec &);
  } cases[] = {
      {"the gpu targets expect head dims that are multiples of 32 and 2, 4 or 8 bits, got dim = 80 "
       "and bits = 2",
       [](RecordSpec &spec) { spec.k.dim = 80; }},
      {"the gpu targets expect head dims that are multiples of 32 and 2, 4 or 8 bits, got dim = "
       "128 "
       "and bits = 3",
       [](RecordSpec &spec) { spec.v.bits = 3; }},
      {"the gpu targets expect head dims that are multiples of 32 and 2, 4 or 8 bits, got dim = "
       "128 "
       "and bits = 1",
       [](RecordSpec &spec) { spec.k.bits = 1; }},
      {"the gpu targets expect parameters per token, got parameters per channel",
       [](RecordSpec &spec) { spec.k.axis = ParameterAxis::channel; }},
      {"the gpu targets expect no outer scale, got one",
       [](RecordSpec &spec) { spec.v.outer = OuterScale::token; }},
      {"the gpu targets expect the key field of channels 0..128 to hold the A fragments of a dot "
       "in "
       "the words of a lane",
       [](RecordSpec &spec) { spec.k.packing = CodePacking::nibble; }},
      {"the gpu targets expect the value field of channels 0..128 to hold the A fragments of an "
       "output in the words of a lane",
       [](RecordSpec &spec) { spec.v.packing = CodePacking::nibble; }},
  };
  for (const auto &entry : cases) {
    RecordSpec spec = record(16, side(128));
    entry.change(spec);
    ASSERT_EQ(verifyRecord(spec), "");
    FragmentMap map;
    EXPECT_EQ(FragmentMap::build(spec, map), entry.message);
  }
}

} // namespace
} // namespace kvq::test

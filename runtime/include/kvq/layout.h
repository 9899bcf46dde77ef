// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The record: bytes of one quantized page of one KV head.
//
//   record = block, block, ...               a page of P tokens, P a multiple of the block
//   block  = channel parameters, tiles       16 tokens, or as many as share the parameters
//   tile   = K codes, V codes, parameters    always 16 tokens
//
// This header is the only place that knows where a code or a parameter lies. The verifier, the
// generator, the oracle, the loader and the converters all walk the fields built here. A field is a
// linear map of digits: the index (token, or channel minus the field's first channel) is taken
// apart digit by digit, and each digit adds a stride in bits. Lanes are named as in mma.sync: lane
// = 4 g + t, g 0..7, t 0..3. All values are little-endian.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace kvq {

enum class ElementType : uint8_t { f16, bf16, f32 };
enum class ParameterForm : uint8_t {
  min,  ///< scale * code + zero
  zero, ///< (code - zero) * scale
  sym,  ///< scale * (code - mid)
  norm, ///< scale * book[code]
};
enum class ParameterAxis : uint8_t {
  token,   ///< one set per token and channel group
  channel, ///< one set per channel and block of tokens
};
enum class OuterScale : uint8_t { none, token, channel };
enum class CodePacking : uint8_t {
  byte,
  nibble, ///< 2-bit codebooks: four bits are an index pair read by a byte permute
};

inline constexpr int kTileTokens = 16;   ///< tokens of a tile
inline constexpr int kRecordAlign = 128; ///< bytes; a record starts and ends on it
inline constexpr int kMaxHeadDim = 576;

inline int elementBytes(ElementType type) { return type == ElementType::f32 ? 4 : 2; }
inline const char *elementName(ElementType type) {
  return type == ElementType::f16 ? "f16" : type == ElementType::bf16 ? "bf16" : "f32";
}

/// How K or V is quantized, as far as bytes are concerned.
struct RecordSide {
  int dim = 0;  ///< head dim, channels
  int bits = 2; ///< 1, 2, 3, 4 or 8
  ParameterForm form = ParameterForm::min;
  int group = 0;                          ///< channels that share parameters; 0 is the whole head
  ElementType element = ElementType::f16; ///< of the parameters
  ParameterAxis axis = ParameterAxis::token;
  OuterScale outer = OuterScale::none;
  CodePacking packing = CodePacking::byte;
};

/// A page of one KV head.
struct RecordSpec {
  int page = 64; ///< tokens
  RecordSide k, v;
  int block = kTileTokens; ///< tokens that share channel parameters
};

enum class FieldKind : uint8_t { code, scale, zero, outer };

struct Digit {
  int64_t count, stride; ///< stride in bits
};

/// Elements of one kind for channels [firstChannel, endChannel).
struct Field {
  char side = 'k'; ///< 'k' or 'v'
  FieldKind kind = FieldKind::code;
  int width = 0;                          ///< bits of an element
  ElementType element = ElementType::f16; ///< parameters only
  bool isSigned = false;                  ///< codes: stored as two's complement
  int shift = 0;                          ///< codes: position of these bits in the code
  int firstChannel = 0, endChannel = 0;
  int64_t offset = 0; ///< bytes, of token 0 and the first channel
  int64_t size = 0;   ///< bytes of the field in the record
  std::vector<Digit> token, channel;
};

struct RecordLayout {
  RecordSpec spec;
  int append = 1;        ///< tokens written at once: 1, or the block
  int64_t headBytes = 0; ///< channel parameters at the head of a block
  int64_t tileBytes = 0, blockBytes = 0;
  int64_t bytes = 0, stride = 0; ///< bytes of the record, and rounded up to kRecordAlign
  std::vector<Field> fields;
};

namespace layout_detail {

inline int64_t roundUp(int64_t x, int64_t m) { return (x + m - 1) / m * m; }

/// `n` as a sum of powers of two: `widest` as often as it fits, then each smaller at most once.
inline std::vector<int> cuts(int n, int widest) {
  std::vector<int> out(n / widest, widest);
  for (int w = 8; w; w /= 2)
    if (w < widest && (n % widest & w))
      out.push_back(w);
  return out;
}

struct BitPlane {
  int shift, bits;
};
inline std::vector<BitPlane> planes(int bits) {
  return bits == 3 ? std::vector<BitPlane>{{0, 2}, {2, 1}} : std::vector<BitPlane>{{0, bits}};
}

inline int groupsOf(const RecordSide &side) { return side.group ? side.dim / side.group : 1; }

inline std::vector<FieldKind> formKinds(ParameterForm form) {
  if (form == ParameterForm::min || form == ParameterForm::zero)
    return {FieldKind::scale, FieldKind::zero};
  return {FieldKind::scale};
}

inline std::vector<FieldKind> channelKinds(const RecordSide &side) {
  std::vector<FieldKind> kinds;
  if (side.axis == ParameterAxis::channel)
    kinds = formKinds(side.form);
  if (side.outer == OuterScale::channel)
    kinds.push_back(FieldKind::outer);
  return kinds;
}

inline std::vector<FieldKind> tokenKinds(const RecordSide &side) {
  std::vector<FieldKind> kinds;
  if (side.axis == ParameterAxis::token)
    kinds = formKinds(side.form);
  if (side.outer == OuterScale::token)
    kinds.push_back(FieldKind::outer);
  return kinds;
}

inline Field makeField(char side, FieldKind kind, int first, int end, int64_t offset,
                       std::vector<Digit> token, const std::vector<Digit> &channel) {
  Field field;
  field.side = side;
  field.kind = kind;
  field.firstChannel = first;
  field.endChannel = end;
  field.offset = offset;
  field.token = std::move(token);
  for (const Digit &digit : channel)
    if (digit.count > 1)
      field.channel.push_back(digit);
  return field;
}

/// Appends one K plane of a tile at byte `at`; returns its bytes. A lane (g, t) owns a string of
/// the bytes of tokens g and g + 8; the string is cut in runs of 8, 4, 2, 1 bytes per token, each
/// stored [g][t][token half][byte].
inline int64_t addKeyPlane(const RecordSide &side, BitPlane plane, int64_t at,
                           std::vector<Field> &fields) {
  const int64_t bits = plane.bits;
  int64_t offset = 0;
  int first = 0;
  for (int run : cuts(int(roundUp(side.dim, 32)) * plane.bits / 32, 8)) {
    const int64_t steps = run * (8 / bits) / 8; // k-steps of 32 channels
    const int64_t width = 2 * run;              // bytes of both tokens in one lane
    int64_t hj[3];                              // strides of channel bits j0, j1, h
    for (int p = 0; p < 3; ++p)
      hj[p] = (1 << p) < run ? 8 << p : bits * steps * ((1 << p) / run);
    std::vector<Digit> slot = {{steps, bits}};
    if (side.packing == CodePacking::nibble) {
      hj[0] = 4, hj[1] = 8, hj[2] = run == 8 ? 32 : run == 4 ? 16 : 2;
      slot = run == 8   ? std::vector<Digit>{{2, 2}, {2, 16}}
             : run == 4 ? std::vector<Digit>{{2, 2}}
                        : std::vector<Digit>{};
    }
    std::vector<Digit> channel = {{2, hj[0]}, {2, hj[1]}, {4, 8 * width}, {2, hj[2]}};
    channel.insert(channel.end(), slot.begin(), slot.end());
    Field field = makeField('k', FieldKind::code, first, first + int(32 * steps), at + offset,
                            {{8, 32 * width}, {2, 8 * run}}, channel);
    field.width = plane.bits, field.shift = plane.shift, field.isSigned = side.bits == 8;
    fields.push_back(field);
    first += int(32 * steps);
    offset += 32 * width;
  }
  return offset;
}

/// Likewise for V. A lane's string holds words of four tokens of one channel; words 2p, 2p + 1 are
/// rows g, g + 8.
inline int64_t addValuePlane(const RecordSide &side, BitPlane plane, int64_t at,
                             std::vector<Field> &fields) {
  const int64_t bits = plane.bits;
  int64_t offset = 0;
  int first = 0;
  for (int width : cuts(int(roundUp(side.dim, bits == 1 ? 64 : 32)) * plane.bits / 16, 16)) {
    const bool wide = width > 4;
    const int64_t slots = (wide ? 8 : 4) / bits; // 16-channel tiles in one word
    int64_t half = wide ? 32 : bits * slots, byteStride = 8;
    std::vector<Digit> slot = {{slots, bits}};
    if (side.packing == CodePacking::nibble) {
      half = wide ? 32 : 16, byteStride = 4;
      slot = wide ? std::vector<Digit>{{2, 2}, {2, 16}} : std::vector<Digit>{{2, 2}};
    }
    std::vector<Digit> channel = {{8, 32 * width}, {2, half}};
    channel.insert(channel.end(), slot.begin(), slot.end());
    channel.push_back({std::max(width / 8, 1), 64});
    int64_t count = 1;
    for (const Digit &digit : channel)
      count *= digit.count;
    Field field = makeField('v', FieldKind::code, first, first + int(count), at + offset,
                            {{2, 2 * byteStride}, {4, 8 * width}, {2, byteStride}}, channel);
    field.width = plane.bits, field.shift = plane.shift, field.isSigned = side.bits == 8;
    fields.push_back(field);
    first += int(count);
    offset += 32 * width;
  }
  return offset;
}

/// Channel parameters at the head of a block, field by field. K is read by lanes t, V by lanes g.
inline int64_t addChannelParameters(char name, const RecordSide &side, int64_t at,
                                    std::vector<Field> &fields) {
  const int64_t e = elementBytes(side.element), dim = roundUp(side.dim, 32);
  for (FieldKind kind : channelKinds(side)) {
    std::vector<std::pair<int64_t, std::vector<Digit>>> runs;
    if (name == 'k')
      runs = {{dim, {{4, 8 * e}, {4, 128}, {2, e == 2 ? 64 : 512}, {dim / 32, 256 * e}}}};
    else
      for (int w : cuts(int(dim / 8 * e), 16))
        runs.push_back({8 * w / e, {{8, 8 * w}, {2, 8 * e}, {w / (2 * e), 16 * e}}});
    int first = 0;
    for (auto &[count, channel] : runs) {
      Field field = makeField(name, kind, first, first + int(count), at + first * e,
                              {{kTileTokens, 0}}, channel);
      field.width = int(8 * e), field.element = side.element;
      fields.push_back(field);
      first += int(count);
    }
    at += dim * e;
  }
  return at;
}

/// A run of a token parameter: `width` bytes per row g, from channel group `firstGroup` on.
struct ParameterRun {
  int width;
  char name;
  const RecordSide *side;
  FieldKind kind;
  int channels; ///< of one group
  int firstGroup;
};

inline std::vector<ParameterRun> tokenRuns(const RecordSpec &spec) {
  std::vector<ParameterRun> runs;
  for (auto [name, side] : {std::pair('k', &spec.k), std::pair('v', &spec.v)})
    for (FieldKind kind : tokenKinds(*side)) {
      const int groups = kind == FieldKind::outer ? 1 : groupsOf(*side);
      const int pairBytes = 2 * elementBytes(side->element); // tokens g and g + 8 of one group
      int first = 0;
      for (int width : cuts(groups * pairBytes, 16)) {
        runs.push_back({width, name, side, kind, side->dim / groups, first});
        first += width / pairBytes;
      }
    }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const ParameterRun &a, const ParameterRun &b) { return a.width > b.width; });
  return runs;
}

/// Where string position `pos` of a row lies when rows of `total` bytes are cut in 16-, 8-, 4-byte
/// vectors and each vector is stored for all `rows` rows: offset of row 0, and distance between
/// rows.
inline std::pair<int64_t, int64_t> stripe(int64_t pos, int total, int64_t rows) {
  int64_t base = 0, start = 0;
  for (int w : cuts(total, 16)) {
    if (pos < start + w)
      return {base + pos - start, w};
    base += w * rows, start += w;
  }
  return {base, 0};
}

/// Token parameters at the end of a tile: the runs of all fields, widest first, are one string per
/// row g.
inline int64_t addTokenParameters(const RecordSpec &spec, int64_t at, std::vector<Field> &fields) {
  const std::vector<ParameterRun> runs = tokenRuns(spec);
  int total = 0;
  for (const ParameterRun &run : runs)
    total += run.width;
  int64_t pos = 0;
  for (const ParameterRun &run : runs) {
    const int64_t e = elementBytes(run.side->element), groups = run.width / (2 * e);
    const int64_t pair =
        std::min<int64_t>(groups, 2); // order in a run: pair of groups, token half, group
    auto [offset, row] = stripe(pos, total, 8);
    Field field = makeField(run.name, run.kind, run.firstGroup * run.channels,
                            int(run.firstGroup + groups) * run.channels, at + offset,
                            {{8, 8 * row}, {2, 8 * e * pair}},
                            {{run.channels, 0}, {pair, 8 * e}, {groups / pair, 16 * e * pair}});
    field.width = int(8 * e), field.element = run.side->element;
    fields.push_back(field);
    pos += run.width;
  }
  return at + 8 * total;
}

inline std::string verifySide(const char *name, const RecordSide &side) {
  const int group = side.group ? side.group : side.dim;
  auto fail = [&](const std::string &expected, int got) {
    return std::string(name) + ": expected " + expected + ", got " + std::to_string(got);
  };
  if (side.dim <= 0 || side.dim > kMaxHeadDim)
    return fail("a head dim of 1 to " + std::to_string(kMaxHeadDim), side.dim);
  if (side.bits < 1 || side.bits > 8 || side.bits == 5 || side.bits == 6 || side.bits == 7)
    return fail("1, 2, 3, 4 or 8 bits", side.bits);
  if (group < 0 || (group != side.dim && (side.dim % group || group % 32)))
    return fail("a group that is a multiple of 32 and divides the head dim " +
                    std::to_string(side.dim),
                group);
  if (side.packing == CodePacking::nibble && side.bits != 2)
    return fail("2 bits with nibble packing", side.bits);
  if (side.axis == ParameterAxis::channel && group != side.dim)
    return fail("no channel groups beside channel parameters (the head dim " +
                    std::to_string(side.dim) + ")",
                group);
  return "";
}

} // namespace layout_detail

/// Empty when the layout is legal; else one sentence: the rule that is broken, what was expected
/// and what was got.
inline std::string verifyRecord(const RecordSpec &spec) {
  for (auto [name, side] : {std::pair("key", &spec.k), std::pair("value", &spec.v)})
    if (std::string error = layout_detail::verifySide(name, *side); !error.empty())
      return error;
  if (spec.block <= 0 || spec.block % kTileTokens)
    return "expected a block that is a multiple of 16 tokens, got " + std::to_string(spec.block);
  if (spec.page <= 0 || spec.page % spec.block)
    return "expected a page that is a multiple of " + std::to_string(spec.block) + " tokens, got " +
           std::to_string(spec.page);
  if (spec.block != kTileTokens && layout_detail::channelKinds(spec.k).empty() &&
      layout_detail::channelKinds(spec.v).empty())
    return "expected a block of 16 tokens without channel parameters, got " +
           std::to_string(spec.block);
  return "";
}

/// Precondition: verifyRecord(spec) is empty.
inline RecordLayout buildRecord(const RecordSpec &spec) {
  using namespace layout_detail;
  RecordLayout layout;
  layout.spec = spec;
  std::vector<Field> &fields = layout.fields;
  int64_t at = addChannelParameters('k', spec.k, 0, fields);
  layout.headBytes = at = addChannelParameters('v', spec.v, at, fields);
  const size_t headFields = fields.size();
  for (BitPlane plane : planes(spec.k.bits))
    at += addKeyPlane(spec.k, plane, at, fields);
  for (BitPlane plane : planes(spec.v.bits))
    at += addValuePlane(spec.v, plane, at, fields);
  layout.tileBytes = addTokenParameters(spec, at, fields) - layout.headBytes;
  const int64_t tiles = spec.block / kTileTokens, blocks = spec.page / spec.block;
  layout.blockBytes = layout.headBytes + tiles * layout.tileBytes;
  layout.bytes = blocks * layout.blockBytes;
  layout.stride = roundUp(layout.bytes, kRecordAlign);
  layout.append = headFields ? spec.block : 1;
  for (size_t i = 0; i < fields.size(); ++i) {
    Field &field = fields[i];
    field.token.push_back({tiles, i < headFields ? 0 : 8 * layout.tileBytes});
    field.token.push_back({blocks, 8 * layout.blockBytes});
    auto single = [](const Digit &digit) { return digit.count <= 1; };
    field.token.erase(std::remove_if(field.token.begin(), field.token.end(), single),
                      field.token.end());
    int64_t elements = 1;
    for (const std::vector<Digit> *digits : {&field.token, &field.channel})
      for (const Digit &digit : *digits)
        elements *= digit.stride ? digit.count : 1;
    field.size = elements * field.width / 8;
  }
  return layout;
}

/// Bit of (token, channel) in the page; channel in [firstChannel, endChannel).
inline int64_t bitAddress(const Field &field, int64_t token, int64_t channel) {
  int64_t bit = 8 * field.offset;
  for (const Digit &digit : field.token)
    bit += token % digit.count * digit.stride, token /= digit.count;
  channel -= field.firstChannel;
  for (const Digit &digit : field.channel)
    bit += channel % digit.count * digit.stride, channel /= digit.count;
  return bit;
}

/// Code padding, parameters and record padding are counted.
inline double bitsPerElement(const RecordLayout &layout) {
  const RecordSpec &spec = layout.spec;
  return 8.0 * double(layout.stride) / (double(spec.page) * (spec.k.dim + spec.v.dim));
}

/// Name of a field in the manifest: "k.code", "v.scale".
inline std::string fieldName(const Field &field) {
  static const char *const kinds[] = {"code", "scale", "zero", "outer"};
  return std::string(1, field.side) + "." + kinds[int(field.kind)];
}

/// Type of a field in the manifest: u2, s8, f16, bf16, f32.
inline std::string fieldType(const Field &field) {
  if (field.kind != FieldKind::code)
    return elementName(field.element);
  return (field.isSigned ? "s" : "u") + std::to_string(field.width);
}

namespace layout_detail {

inline std::string digitsText(const std::vector<Digit> &digits) {
  std::string text = "[";
  for (const Digit &digit : digits)
    text += (text.size() > 1 ? ",[" : "[") + std::to_string(digit.count) + "," +
            std::to_string(digit.stride) + "]";
  return text + "]";
}

inline std::string fieldText(const Field &field) {
  return "{\"field\":\"" + fieldName(field) + "\",\"type\":\"" + fieldType(field) +
         "\",\"shift\":" + std::to_string(field.shift) + ",\"channels\":[" +
         std::to_string(field.firstChannel) + "," + std::to_string(field.endChannel) +
         "],\"offset\":" + std::to_string(field.offset) + ",\"token\":" + digitsText(field.token) +
         ",\"channel\":" + digitsText(field.channel) + ",\"size\":" + std::to_string(field.size) +
         "}";
}

inline std::string valueText(const RecordSide &side) {
  const std::string mid = side.bits == 8 ? "0" : std::to_string(((1 << side.bits) - 1) / 2) + ".5";
  const char *const plain[] = {"scale*code+zero", "(code-zero)*scale", "", "scale*book[code]"};
  const std::string text =
      side.form == ParameterForm::sym ? "scale*(code-" + mid + ")" : plain[int(side.form)];
  return side.outer == OuterScale::none ? text : "(" + text + ")*outer";
}

inline std::string sideText(const RecordSide &side) {
  return "{\"dim\":" + std::to_string(side.dim) + ",\"bits\":" + std::to_string(side.bits) +
         ",\"value\":\"" + valueText(side) + "\"}";
}

} // namespace layout_detail

/// The manifest text of a layout, one line of JSON: all that is needed to decode a page. `name`
/// must need no escapes.
inline std::string recordText(const RecordLayout &layout, const std::string &name) {
  using namespace layout_detail;
  std::string text =
      "{\"record\":1,\"name\":\"" + name + "\",\"tokens\":" + std::to_string(layout.spec.page) +
      ",\"append\":" + std::to_string(layout.append) +
      ",\"bytes\":" + std::to_string(layout.bytes) +
      ",\"stride\":" + std::to_string(layout.stride) + ",\"k\":" + sideText(layout.spec.k) +
      ",\"v\":" + sideText(layout.spec.v) + ",\"fields\":[";
  for (size_t i = 0; i < layout.fields.size(); ++i)
    text += (i ? "," : "") + fieldText(layout.fields[i]);
  return text + "]}";
}

} // namespace kvq

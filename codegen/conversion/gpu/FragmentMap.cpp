// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/gpu/FragmentMap.h"

#include "codegen/conversion/FieldPlaces.h"

using ::kvq::Field;
using ::kvq::FieldKind;

namespace mlir::kvq {
namespace {

std::string unexpected(const Field &field, const char *what) {
  return unexpectedField("the gpu targets expect", field, what);
}

/// Why no map of `side` exists, whatever its fields look like.
std::string unsupported(const ::kvq::RecordSide &side) {
  if (side.dim % 32 || (side.bits != 2 && side.bits != 4 && side.bits != 8))
    return "the gpu targets expect head dims that are multiples of 32 and 2, 4 or 8 bits, got dim "
           "= " +
           std::to_string(side.dim) + " and bits = " + std::to_string(side.bits);
  if (side.axis == ::kvq::ParameterAxis::channel)
    return "the gpu targets expect parameters per token, got parameters per channel";
  if (side.outer != ::kvq::OuterScale::none)
    return "the gpu targets expect no outer scale, got one";
  return "";
}

/// The vector of a field whose lane 0 begins at the field and whose lane 1 is `other` bytes on.
std::string laneVector(const Field &field, int64_t other, std::vector<LaneVector> &vectors) {
  LaneVector vector{field.offset, static_cast<int>(other - field.offset)};
  if (vector.bytes != 4 && vector.bytes != 8 && vector.bytes != 16)
    return unexpected(field, "to give each lane 4, 8 or 16 bytes");
  vectors.push_back(vector);
  return "";
}

/// Checks byte j of register (r, h) of the k-step at `channel`, in every lane.
bool keyByteHolds(const Field &field, const LaneVector &vector, const RegisterPlace &place, int r,
                  int64_t channel, int j) {
  for (int lane = 0; lane < 32; ++lane) {
    int64_t at = channel + lane % 4 * 4 + j, token = lane / 4 + 8 * r;
    int64_t byte = vector.offset + lane * vector.bytes + 4 * place.word;
    byte += place.half < 0 ? j : 2 * place.half + j % 2;
    int slot = place.slot + (place.half < 0 ? 0 : j / 2);
    if (byteOf(field, token, at) != byte || slotOf(field, at) != slot)
      return false;
  }
  return true;
}

std::string keyField(const Field &field, FragmentMap &map) {
  int64_t first = field.firstChannel;
  if (std::string error = laneVector(field, byteOf(field, 0, first + 4), map.keyVectors);
      !error.empty())
    return error;
  const LaneVector &vector = map.keyVectors.back();
  for (int64_t step = first; step < field.endChannel; step += 32)
    for (int h = 0; h < 2; ++h)
      for (int r = 0; r < 2; ++r) {
        int64_t channel = step + 16 * h;
        int64_t byte = byteOf(field, 8 * r, channel) - vector.offset;
        RegisterPlace place;
        place.vector = static_cast<int>(map.keyVectors.size()) - 1;
        place.word = static_cast<int>(byte / 4);
        place.slot = slotOf(field, channel);
        // Channels 2 apart in one byte: the run has 2 bytes of each token.
        if (byteOf(field, 8 * r, channel + 2) == byte + vector.offset)
          place.half = static_cast<int>(byte % 4 / 2);
        for (int j = 0; j < 4; ++j)
          if (!keyByteHolds(field, vector, place, r, channel, j))
            return unexpected(field, "to hold the A fragments of a dot in the words of a lane");
        map.keySteps[step / 32][r + 2 * h] = place;
      }
  return "";
}

std::string valueField(const Field &field, FragmentMap &map) {
  int64_t first = field.firstChannel;
  // Lane 1 is t = 1: its first byte holds token 2.
  if (std::string error = laneVector(field, byteOf(field, 2, first), map.valueVectors);
      !error.empty())
    return error;
  const LaneVector &vector = map.valueVectors.back();
  for (int64_t channel = first; channel < field.endChannel; ++channel) {
    int g = static_cast<int>(channel % 8), a = static_cast<int>(channel / 8 % 2);
    int64_t at = byteOf(field, 0, channel) - vector.offset - 4 * g * vector.bytes;
    RegisterPlace place;
    place.vector = static_cast<int>(map.valueVectors.size()) - 1;
    place.word = static_cast<int>(at / 4), place.slot = slotOf(field, channel);
    RegisterPlace &known = map.valueTiles[channel / 16][a];
    if (g == 0)
      known = place;
    if (known.vector != place.vector || known.word != place.word || known.slot != place.slot)
      return unexpected(field, "to hold eight channels in the same word of eight rows of lanes");
    for (int lane = 4 * g; lane < 4 * g + 4; ++lane)
      for (int j = 0; j < 4; ++j) {
        int64_t token = lane % 4 * 2 + (j >> 1) + 8 * (j & 1);
        int64_t byte = vector.offset + lane * vector.bytes + 4 * place.word + j;
        if (byteOf(field, token, channel) != byte)
          return unexpected(field, "to hold the A fragments of an output in the words of a lane");
      }
  }
  return "";
}

std::string paramField(const Field &field, FragmentMap &map) {
  SideParams &side = field.side == 'k' ? map.key : map.value;
  auto &places = field.kind == FieldKind::scale ? side.scale : side.zero;
  int64_t size = map.groupSize(field.side == 'k');
  for (int64_t channel = field.firstChannel; channel < field.endChannel; channel += size) {
    std::array<ParamPlace, 2> pair;
    for (int r = 0; r < 2; ++r) {
      pair[r].offset = byteOf(field, 8 * r, channel);
      pair[r].rowStride = byteOf(field, 8 * r + 1, channel) - pair[r].offset;
      for (int g = 0; g < 8; ++g)
        if (byteOf(field, g + 8 * r, channel) != pair[r].offset + g * pair[r].rowStride)
          return unexpected(field, "to place the parameters of eight tokens at equal distances");
    }
    places.push_back(pair);
  }
  return "";
}

} // namespace

std::string FragmentMap::build(const ::kvq::RecordSpec &spec, FragmentMap &map) {
  for (const ::kvq::RecordSide *side : {&spec.k, &spec.v})
    if (std::string error = unsupported(*side); !error.empty())
      return error;
  map = FragmentMap();
  map.spec = spec;
  map.spec.page = map.spec.block;
  const ::kvq::RecordLayout layout = ::kvq::buildRecord(map.spec);
  map.tileBytes = layout.tileBytes;
  map.keySteps.resize(spec.k.dim / 32);
  map.valueTiles.resize(spec.v.dim / 16);
  for (const Field &field : layout.fields) {
    std::string error = field.kind != FieldKind::code ? paramField(field, map)
                        : field.side == 'k'           ? keyField(field, map)
                                                      : valueField(field, map);
    if (!error.empty())
      return error;
  }
  return "";
}

} // namespace mlir::kvq

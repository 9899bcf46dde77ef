// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/TileMap.h"

#include "codegen/conversion/FieldPlaces.h"

#include <algorithm>
#include <map>

using ::kvq::Field;
using ::kvq::FieldKind;

namespace mlir::kvq {
namespace {

std::string unexpected(const Field &field, const char *what) {
  return unexpectedField("the cpu target expects", field, what);
}

/// Splits the bytes of row 0 into those of token 0 and their distance to token 8.
std::string keyRow(const Field &field, KeyCut &cut, std::vector<int64_t> &bytes, int64_t &half) {
  int64_t first = byteOf(field, 0, field.firstChannel);
  cut.rowBytes = byteOf(field, 1, field.firstChannel) - first;
  half = byteOf(field, 8, field.firstChannel) - first;
  for (int64_t channel = field.firstChannel; channel < field.endChannel; ++channel) {
    int64_t byte = byteOf(field, 0, channel);
    for (int token = 0; token < kTileTokens; ++token)
      if (byteOf(field, token, channel) != byte + (token % 8) * cut.rowBytes + (token / 8) * half)
        return unexpected(field, "to place token g + 8r at g rows and r halves from token 0");
    bytes.push_back(byte);
  }
  std::sort(bytes.begin(), bytes.end());
  bytes.erase(std::unique(bytes.begin(), bytes.end()), bytes.end());
  if (static_cast<int64_t>(bytes.size()) * 2 != cut.rowBytes || bytes.size() % 8 != 0)
    return unexpected(field, "to fill rows of two tokens with a multiple of 8 bytes each");
  cut.offset = bytes.front();
  cut.units = static_cast<int>(bytes.size() / 8);
  return "";
}

std::string keyCut(const Field &field, int slots, int64_t groupSize, KeyCut &cut) {
  std::vector<int64_t> bytes;
  int64_t half = 0;
  if (std::string error = keyRow(field, cut, bytes, half); !error.empty())
    return error;
  cut.firstChannel = field.firstChannel;
  cut.channelCount = field.endChannel - field.firstChannel;
  for (int unit = 0; unit < cut.units; ++unit)
    for (int r = 0; r < 2; ++r)
      for (int i = 0; i < 8; ++i)
        cut.byteOrder.push_back(bytes[8 * unit + i] - cut.offset + r * half);
  cut.channels.assign(slots * bytes.size(), -1);
  for (int64_t channel = field.firstChannel; channel < field.endChannel; ++channel) {
    size_t index =
        std::lower_bound(bytes.begin(), bytes.end(), byteOf(field, 0, channel)) - bytes.begin();
    cut.channels[slotOf(field, channel) * bytes.size() + index] = static_cast<int>(channel);
  }
  if (std::count(cut.channels.begin(), cut.channels.end(), -1))
    return unexpected(field, "to hold a channel in every slot of every byte");
  for (int slot = 0; slot < slots; ++slot) {
    cut.groups.push_back(static_cast<int>(cut.channels[slot * bytes.size()] / groupSize));
    for (size_t i = 0; i < bytes.size(); ++i)
      if (cut.channels[slot * bytes.size() + i] / groupSize != cut.groups.back())
        return unexpected(field, "to hold one channel group per slot");
  }
  return "";
}

/// Finds token and word of each byte of row 0.
std::string valueRow(const Field &field, ValueCut &cut) {
  cut.offset = byteOf(field, 0, field.firstChannel);
  cut.firstChannel = field.firstChannel;
  cut.channelCount = field.endChannel - field.firstChannel;
  cut.rowBytes = cut.channelCount * kTileTokens * field.width / 8 / kRows;
  if (cut.rowBytes % kLanes)
    return unexpected(field, "to have rows of a multiple of 16 bytes");
  cut.units = static_cast<int>(cut.rowBytes / kLanes);
  cut.tokens.assign(cut.rowBytes, -1);
  std::vector<int> words(cut.rowBytes, -1);
  for (int64_t channel = field.firstChannel; channel < field.endChannel; ++channel) {
    int64_t base = byteOf(field, 0, channel) - cut.offset;
    if (base >= cut.rowBytes)
      continue;
    auto known = std::find(cut.wordByte.begin(), cut.wordByte.end(), base);
    int word = static_cast<int>(known - cut.wordByte.begin());
    if (known == cut.wordByte.end())
      cut.wordByte.push_back(base);
    for (int token = 0; token < kTileTokens; ++token) {
      int64_t byte = byteOf(field, token, channel) - cut.offset;
      if (byte < 0 || byte >= cut.rowBytes)
        return unexpected(field, "to keep all tokens of a channel in one row");
      cut.tokens[byte] = token;
      words[byte] = word;
    }
  }
  cut.words = static_cast<int>(cut.wordByte.size());
  cut.laneWords.assign(words.begin(), words.begin() + kLanes);
  for (int64_t byte = 0; byte < cut.rowBytes; ++byte)
    if (words[byte] < 0 || words[byte] != cut.laneWords[byte % kLanes])
      return unexpected(field, "to hold the same channels in every 16 bytes of a row");
  return "";
}

std::string valueCut(const Field &field, int slots, int64_t groupSize, ValueCut &cut) {
  if (std::string error = valueRow(field, cut); !error.empty())
    return error;
  cut.channels.assign(slots * cut.words, -1);
  std::vector<int64_t> channelOf(kRows * slots * cut.words, -1);
  for (int64_t channel = field.firstChannel; channel < field.endChannel; ++channel) {
    int64_t byte = byteOf(field, 0, channel) - cut.offset;
    auto word = std::find(cut.wordByte.begin(), cut.wordByte.end(), byte % cut.rowBytes);
    if (word == cut.wordByte.end())
      return unexpected(field, "to have the same words in every row");
    int64_t index = slotOf(field, channel) * cut.words + (word - cut.wordByte.begin());
    channelOf[byte / cut.rowBytes * slots * cut.words + index] = channel;
    for (int token = 0; token < kTileTokens; ++token)
      if (byteOf(field, token, channel) - byteOf(field, 0, channel) !=
          byteOf(field, token, field.firstChannel) - byteOf(field, 0, field.firstChannel))
        return unexpected(field, "to place tokens alike for every channel");
  }
  int64_t perRow = slots * cut.words;
  for (int64_t i = 0; i < kRows * perRow; ++i)
    if (channelOf[i] < 0 || channelOf[i] != channelOf[i % perRow] + i / perRow ||
        channelOf[i] / groupSize != channelOf[i % perRow] / groupSize)
      return unexpected(field, "to hold channel c + g in row g, within one channel group");
  for (int64_t i = 0; i < perRow; ++i) {
    cut.channels[i] = static_cast<int>(channelOf[i]);
    cut.groups.push_back(static_cast<int>(channelOf[i] / groupSize));
  }
  return "";
}

/// The region of a parameter: the vector of 8 rows of `rowBytes` that contains it.
std::string paramSlot(const Field &field, int64_t channel,
                      const std::map<int64_t, int64_t> &firstOfRow, ParamSlot &slot) {
  slot.offset = byteOf(field, 0, channel);
  int64_t row = byteOf(field, 1, channel) - slot.offset;
  int64_t start = firstOfRow.at(row);
  slot.regionBytes = kRows * row;
  slot.regionOffset = start + (slot.offset - start) / slot.regionBytes * slot.regionBytes;
  int64_t element = ::kvq::elementBytes(field.element);
  for (int token = 0; token < kTileTokens; ++token) {
    int64_t byte = byteOf(field, token, channel) - slot.regionOffset;
    if (byte % element || byte < 0 || byte + element > slot.regionBytes)
      return unexpected(field, "to keep the parameters of a group in one vector of 8 rows");
    slot.elements.push_back(byte / element);
  }
  return "";
}

std::string sideParams(const TileMap &map, char side, int groups, int64_t groupSize,
                       ParamMap &params) {
  std::map<int64_t, int64_t> firstOfRow;
  for (const Field &field : map.fields)
    if (field.kind != FieldKind::code) {
      int64_t offset = byteOf(field, 0, field.firstChannel);
      int64_t row = byteOf(field, 1, field.firstChannel) - offset;
      auto entry = firstOfRow.emplace(row, offset).first;
      entry->second = std::min(entry->second, offset);
    }
  for (const Field &field : map.fields) {
    if (field.side != side || field.kind == FieldKind::code)
      continue;
    std::vector<ParamSlot> &slots = field.kind == FieldKind::scale ? params.scale : params.zero;
    slots.resize(groups);
    for (int64_t channel = field.firstChannel; channel < field.endChannel; channel += groupSize)
      if (std::string error = paramSlot(field, channel, firstOfRow, slots[channel / groupSize]);
          !error.empty())
        return error;
  }
  return "";
}

} // namespace

std::string TileMap::build(const ::kvq::RecordSpec &spec, TileMap &map) {
  map = TileMap();
  map.spec = spec;
  map.spec.page = kTileTokens;
  ::kvq::RecordLayout layout = ::kvq::buildRecord(map.spec);
  map.tileBytes = layout.tileBytes;
  map.fields = layout.fields;
  map.keySlots = 8 / spec.k.bits;
  map.valueSlots = 8 / spec.v.bits;
  map.keyGroupSize = spec.k.group ? spec.k.group : spec.k.dim;
  map.valueGroupSize = spec.v.group ? spec.v.group : spec.v.dim;
  map.keyGroups = static_cast<int>(spec.k.dim / map.keyGroupSize);
  map.valueGroups = static_cast<int>(spec.v.dim / map.valueGroupSize);
  for (const Field &field : map.fields) {
    if (field.kind != FieldKind::code)
      continue;
    std::string error;
    if (field.side == 'k')
      error = keyCut(field, map.keySlots, map.keyGroupSize, map.keyCuts.emplace_back());
    else
      error = valueCut(field, map.valueSlots, map.valueGroupSize, map.valueCuts.emplace_back());
    if (!error.empty())
      return error;
  }
  if (std::string error = sideParams(map, 'k', map.keyGroups, map.keyGroupSize, map.keyParams);
      !error.empty())
    return error;
  return sideParams(map, 'v', map.valueGroups, map.valueGroupSize, map.valueParams);
}

} // namespace mlir::kvq

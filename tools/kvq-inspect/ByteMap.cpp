// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-inspect/ByteMap.h"

#include <algorithm>

namespace kvq {
namespace {

bool isToken(const RecordSide &side, FieldKind kind) {
  return kind == FieldKind::outer ? side.outer == OuterScale::token
                                  : side.axis == ParameterAxis::token;
}

std::vector<int> sorted(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

/// "0, 1, 2, 3" as "0-3"; others as a list.
std::string listText(const std::vector<int> &numbers) {
  if (numbers.size() > 1 && numbers.back() - numbers.front() + 1 == int(numbers.size()))
    return std::to_string(numbers.front()) + "-" + std::to_string(numbers.back());
  std::string text;
  for (int number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

const char *plural(const std::vector<int> &numbers) { return numbers.size() > 1 ? "s " : " "; }

std::string codesText(const Field &field, const RecordByte &byte, int dim) {
  std::vector<ByteElement> elements = byte.elements;
  std::sort(elements.begin(), elements.end(),
            [](const ByteElement &a, const ByteElement &b) { return a.bit < b.bit; });
  std::string text;
  for (const ByteElement &element : elements) {
    text += ", bit";
    text += field.width == 1 ? " " + std::to_string(element.bit)
                             : "s " + std::to_string(element.bit) + "-" +
                                   std::to_string(element.bit + field.width - 1);
    text += " token " + std::to_string(element.token) + " channel " +
            std::to_string(element.channel) + (element.channel >= dim ? " (padding)" : "");
  }
  return text;
}

} // namespace

uint32_t lanesOf(const RecordSpec &spec, const Field &field, int64_t token, int64_t channel) {
  // Rows g of K are tokens and columns t quadruples of channels; V is transposed, in pairs.
  const bool key = field.side == 'k';
  const int keyG = int(token % 8), keyT = int(channel / 4 % 4);
  const int valueG = int(channel % 8), valueT = int(token / 2 % 4);
  const uint32_t row = 0xf; // all t of one g
  if (field.kind == FieldKind::code)
    return uint32_t(1) << (key ? 4 * keyG + keyT : 4 * valueG + valueT);
  if (isToken(key ? spec.k : spec.v, field.kind))
    return row << 4 * keyG; // rows of 8 tokens, for V too
  return key ? uint32_t(0x11111111) << keyT : row << 4 * valueG;
}

std::vector<RecordByte> mapBytes(const RecordLayout &layout) {
  std::vector<RecordByte> bytes(static_cast<size_t>(layout.stride));
  for (size_t index = 0; index < layout.fields.size(); ++index) {
    const Field &field = layout.fields[index];
    for (int token = 0; token < layout.spec.page; ++token)
      for (int channel = field.firstChannel; channel < field.endChannel; ++channel) {
        const int64_t first = bitAddress(field, token, channel), end = first + field.width;
        for (int64_t at = first / 8; 8 * at < end; ++at) {
          RecordByte &byte = bytes[size_t(at)];
          byte.field = int(index);
          byte.elements.push_back({token, channel, int32_t(first - 8 * at)});
          byte.lanes |= lanesOf(layout.spec, field, token, channel);
        }
      }
  }
  return bytes;
}

std::vector<int> tokensOf(const RecordByte &byte) {
  std::vector<int> out;
  for (const ByteElement &element : byte.elements)
    if (out.empty() || out.back() != element.token)
      out.push_back(element.token);
  return sorted(std::move(out));
}

std::vector<int> channelsOf(const RecordByte &byte) {
  std::vector<int> out;
  for (const ByteElement &element : byte.elements)
    out.push_back(element.channel);
  return sorted(std::move(out));
}

std::vector<int> lanesOf(const RecordByte &byte) {
  std::vector<int> out;
  for (int lane = 0; lane < 32; ++lane)
    if (byte.lanes >> lane & 1)
      out.push_back(lane);
  return out;
}

std::string shortText(const std::vector<int> &numbers) {
  const size_t count = numbers.size();
  if (!count)
    return "";
  if (count == 1)
    return std::to_string(numbers.front());
  const std::string first = std::to_string(numbers.front()), last = std::to_string(numbers.back());
  const int step = numbers[1] - numbers[0];
  bool even = true;
  for (size_t i = 1; i < count; ++i)
    even &= numbers[i] - numbers[i - 1] == step;
  if (!even)
    return first + ".." + last;
  return step == 1 ? first + "-" + last : first + "+" + std::to_string(step);
}

std::string byteText(const RecordLayout &layout, const std::vector<RecordByte> &bytes,
                     int64_t offset) {
  const RecordByte &byte = bytes[size_t(offset)];
  std::string text = "byte " + std::to_string(offset) + ": ";
  if (byte.field < 0)
    return text + "padding";
  const Field &field = layout.fields[size_t(byte.field)];
  text += fieldName(field) + " " + fieldType(field);
  const std::vector<int> lanes = lanesOf(byte);
  if (field.kind == FieldKind::code) {
    if (field.shift)
      text += " shifted by " + std::to_string(field.shift);
    text += codesText(field, byte, field.side == 'k' ? layout.spec.k.dim : layout.spec.v.dim);
  } else {
    const std::vector<int> tokens = tokensOf(byte), channels = channelsOf(byte);
    text += " (byte " + std::to_string(-byte.elements.front().bit / 8) + " of " +
            std::to_string(field.width / 8) + ")";
    text += std::string(", token") + plural(tokens) + listText(tokens);
    text += std::string(", channel") + plural(channels) + listText(channels);
  }
  return text + ", lane" + plural(lanes) + listText(lanes);
}

} // namespace kvq

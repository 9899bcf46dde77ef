// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/format/safetensors.h"

#include "runtime/format/sha256.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace kvq {
namespace {

using Json = nlohmann::json;

constexpr const char *kMetadata = "__metadata__";
constexpr uint64_t kMaxHeader = 100'000'000; ///< the format's own bound

struct TypeEntry {
  TensorType type;
  const char *name;
  int bytes;
};
constexpr TypeEntry kTypes[] = {
    {TensorType::boolean, "BOOL", 1},   {TensorType::u8, "U8", 1},
    {TensorType::i8, "I8", 1},          {TensorType::f8e4m3, "F8_E4M3", 1},
    {TensorType::f8e5m2, "F8_E5M2", 1}, {TensorType::u16, "U16", 2},
    {TensorType::i16, "I16", 2},        {TensorType::f16, "F16", 2},
    {TensorType::bf16, "BF16", 2},      {TensorType::u32, "U32", 4},
    {TensorType::i32, "I32", 4},        {TensorType::f32, "F32", 4},
    {TensorType::u64, "U64", 8},        {TensorType::i64, "I64", 8},
    {TensorType::f64, "F64", 8},
};

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + (size < 0 ? std::string("any") : std::to_string(size));
  return text + "]";
}

/// Bytes of a tensor; false if they do not fit in 63 bits.
bool byteCount(TensorType type, const std::vector<int64_t> &shape, int64_t &bytes) {
  bytes = tensorBytes(type);
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
      return false;
  return true;
}

/// JSON text to a document; duplicate keys are an error, where a plain parse would keep the last
/// one.
std::string parseJson(const char *text, size_t size, Json &out) {
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  auto watch = [&](int, Json::parse_event_t event, Json &value) {
    if (event == Json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == Json::parse_event_t::object_end && !keys.empty())
      keys.pop_back();
    else if (event == Json::parse_event_t::key && !keys.empty())
      if (!keys.back().insert(value.get<std::string>()).second && duplicate.empty())
        duplicate = value.get<std::string>();
    return true;
  };
  out = Json::parse(text, text + size, watch, /*allow_exceptions=*/false);
  if (out.is_discarded() || !out.is_object())
    return "the safetensors header is not a JSON object";
  if (!duplicate.empty())
    return "the safetensors header has the key '" + duplicate + "' twice";
  return "";
}

bool isCount(const Json &value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t(INT64_MAX);
}

bool isCountList(const Json &entry, const char *key) {
  return entry.contains(key) && entry[key].is_array() &&
         std::all_of(entry[key].begin(), entry[key].end(), isCount);
}

std::string parseTensor(const std::string &name, const Json &entry, ByteSpan data,
                        TensorView &out) {
  const std::string where = "tensor '" + name + "': ";
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !isCountList(entry, "shape") || !isCountList(entry, "data_offsets") ||
      entry["data_offsets"].size() != 2)
    return where + "expected dtype, shape and two data_offsets in the safetensors header";
  const std::string typeName = entry["dtype"].get<std::string>();
  const TypeEntry *type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                       [&](const TypeEntry &t) { return typeName == t.name; });
  if (type == std::end(kTypes))
    return where + "the element type '" + typeName + "' is not known";
  out.name = name, out.type = type->type;
  out.shape = entry["shape"].get<std::vector<int64_t>>();
  const uint64_t begin = entry["data_offsets"][0].get<uint64_t>();
  const uint64_t end = entry["data_offsets"][1].get<uint64_t>();
  int64_t bytes = 0;
  if (!byteCount(out.type, out.shape, bytes) || begin > end || end - begin != uint64_t(bytes))
    return where + "expected the bytes of " + tensorText(out.type, out.shape) +
           ", got data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) + "]";
  if (end > data.size)
    return where + "data_offsets end at " + std::to_string(end) + ", the file has " +
           std::to_string(data.size) + " bytes of tensors";
  out.data = {data.bytes() + begin, size_t(bytes)};
  return "";
}

/// Tensors must tile the data: neither overlap nor gap, so that no byte is hidden or has two
/// meanings.
std::string checkTiling(const std::vector<TensorView> &views, ByteSpan data) {
  std::vector<const TensorView *> order;
  for (const TensorView &view : views)
    order.push_back(&view);
  std::sort(order.begin(), order.end(), [](const TensorView *a, const TensorView *b) {
    return std::pair(a->data.bytes(), a->data.size) < std::pair(b->data.bytes(), b->data.size);
  });
  const uint8_t *end = data.bytes();
  for (const TensorView *view : order) {
    if (view->data.bytes() != end)
      return "tensor '" + view->name + "': expected data from offset " +
             std::to_string(end - data.bytes()) + " (no gap, no overlap), got offset " +
             std::to_string(view->data.bytes() - data.bytes());
    end += view->data.size;
  }
  if (end != data.bytes() + data.size)
    return "expected " + std::to_string(end - data.bytes()) + " bytes of tensors, got " +
           std::to_string(data.size);
  return "";
}

void sortByName(std::vector<TensorView> &tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorView &a, const TensorView &b) { return a.name < b.name; });
}

} // namespace

int tensorBytes(TensorType type) { return kTypes[int(type)].bytes; }
const char *tensorTypeName(TensorType type) { return kTypes[int(type)].name; }

int64_t TensorView::elements() const { return int64_t(data.size) / tensorBytes(type); }

std::string tensorText(TensorType type, const std::vector<int64_t> &shape) {
  return std::string(tensorTypeName(type)) + " " + shapeText(shape);
}

std::string Safetensors::open(const std::string &path, Safetensors &out) {
  FileBytes bytes;
  if (std::string error = FileBytes::map(path, bytes); !error.empty())
    return error;
  std::string error = parse(std::move(bytes), out);
  return error.empty() ? "" : "'" + path + "': " + error;
}

std::string Safetensors::parse(FileBytes bytes, Safetensors &out) {
  const ByteSpan file = bytes.span();
  uint64_t header = 0;
  if (file.size < 8)
    return "expected a safetensors file of at least 8 bytes, got " + std::to_string(file.size);
  for (int i = 0; i < 8; ++i)
    header |= uint64_t(file.bytes()[i]) << (8 * i);
  if (header > kMaxHeader || header > file.size - 8)
    return "expected a safetensors header within the file of " + std::to_string(file.size) +
           " bytes, got one of " + std::to_string(header) + " bytes";
  Safetensors result;
  const char *text = reinterpret_cast<const char *>(file.bytes()) + 8;
  if (std::string error = result.parseHeader(
          text, header, {file.bytes() + 8 + header, size_t(file.size - 8 - header)});
      !error.empty())
    return error;
  result.bytes = std::move(bytes);
  out = std::move(result);
  return "";
}

std::string Safetensors::parseHeader(const char *text, size_t size, ByteSpan data) {
  Json header;
  if (std::string error = parseJson(text, size, header); !error.empty())
    return error;
  for (const auto &[name, entry] : header.items()) {
    if (name != kMetadata) {
      views.emplace_back();
      if (std::string error = parseTensor(name, entry, data, views.back()); !error.empty())
        return error;
      continue;
    }
    if (!entry.is_object())
      return "expected an object of strings as __metadata__";
    for (const auto &[key, value] : entry.items()) {
      if (!value.is_string())
        return "expected a string as value of '" + key + "' in __metadata__";
      strings[key] = value.get<std::string>();
    }
  }
  sortByName(views);
  return checkTiling(views, data);
}

const TensorView *Safetensors::find(const std::string &name) const {
  auto at =
      std::lower_bound(views.begin(), views.end(), name,
                       [](const TensorView &view, const std::string &n) { return view.name < n; });
  return at != views.end() && at->name == name ? &*at : nullptr;
}

std::string Safetensors::get(const std::string &name, const std::vector<TensorType> &types,
                             const std::vector<int64_t> &shape, const TensorView *&out) const {
  const TensorView *view = find(name);
  if (!view)
    return "tensor '" + name + "' is missing";
  bool match = std::find(types.begin(), types.end(), view->type) != types.end() &&
               shape.size() == view->shape.size();
  for (size_t i = 0; match && i < shape.size(); ++i)
    match = shape[i] < 0 || shape[i] == view->shape[i];
  if (!match) {
    std::string expected;
    for (TensorType type : types)
      expected += (expected.empty() ? "" : " or ") + std::string(tensorTypeName(type));
    return "tensor '" + name + "': expected " + expected + " " + shapeText(shape) + ", got " +
           tensorText(view->type, view->shape);
  }
  out = view;
  return "";
}

std::string tensorDigest(std::vector<TensorView> tensors) {
  sortByName(tensors);
  Sha256 hash;
  for (const TensorView &tensor : tensors)
    hash.update(tensor.data.data, tensor.data.size);
  return digestText(hash.finish());
}

std::string writeSafetensors(const std::string &path, std::vector<TensorView> tensors,
                             const std::map<std::string, std::string> &metadata) {
  sortByName(tensors);
  Json header = Json::object();
  if (!metadata.empty())
    header[kMetadata] = metadata;
  std::vector<ByteSpan> pieces(1);
  uint64_t offset = 0;
  for (const TensorView &tensor : tensors) {
    int64_t bytes = 0;
    if (!byteCount(tensor.type, tensor.shape, bytes) || uint64_t(bytes) != tensor.data.size)
      return "tensor '" + tensor.name + "': expected the bytes of " +
             tensorText(tensor.type, tensor.shape) + ", got " + std::to_string(tensor.data.size);
    if (tensor.name == kMetadata || header.contains(tensor.name))
      return "tensor '" + tensor.name + "': expected a name that is not used yet";
    header[tensor.name] = {{"dtype", tensorTypeName(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + uint64_t(bytes)}}};
    offset += uint64_t(bytes);
    pieces.push_back(tensor.data);
  }
  // Replacing wrong UTF-8 keeps dump() from throwing; the padding puts the tensors at a multiple
  // of 8.
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string prefix;
  for (int i = 0; i < 8; ++i)
    prefix += char(uint64_t(text.size()) >> (8 * i));
  prefix += text;
  pieces[0] = {prefix.data(), prefix.size()};
  return writeFile(path, pieces);
}

} // namespace kvq

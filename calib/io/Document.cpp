// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "calib/io/Document.h"

#include <nlohmann/json.hpp>

#include <utility>

namespace kvq {

using Json = nlohmann::json;

struct Document::Node {
  Json value;
  std::string path;
  std::shared_ptr<std::string> error;

  void fail(const std::string &message) const {
    if (error->empty())
      *error = message;
  }
  /// The member, or null with an error that names what was expected.
  const Json *member(const char *key, const std::string &expected,
                     bool (*good)(const Json &)) const {
    const auto at = value.is_object() ? value.find(key) : value.end();
    const std::string where = path + "." + key;
    if (at == value.end())
      return fail(where + ": expected " + expected + ", got nothing"), nullptr;
    if (!good(*at))
      return fail(where + ": expected " + expected + ", got " + at->type_name()), nullptr;
    return &*at;
  }
  int64_t inRange(const Json &number, const std::string &where, int64_t low, int64_t high) const {
    const bool large = number.is_number_unsigned() && number.get<uint64_t>() > uint64_t(INT64_MAX);
    const int64_t value = large ? INT64_MAX : number.get<int64_t>();
    if (value >= low && value <= high)
      return value;
    fail(where + ": expected an integer from " + std::to_string(low) + " to " +
         std::to_string(high) + ", got " + number.dump());
    return 0;
  }
};

Document::Document(Node node) : node(std::make_unique<Node>(std::move(node))) {}
Document::~Document() = default;
Document::Document(Document &&) noexcept = default;
Document::Document(const Document &other) : node(std::make_unique<Node>(*other.node)) {}

Document Document::parse(const std::string &text, const std::string &name) {
  Node node{Json::parse(text, nullptr, /*allow_exceptions=*/false), name,
            std::make_shared<std::string>()};
  if (!node.value.is_object()) {
    node.fail(name + ": expected a JSON object");
    node.value = Json::object();
  }
  return Document(std::move(node));
}

int64_t Document::integer(const char *key, int64_t low, int64_t high) const {
  const Json *value =
      node->member(key, "an integer", [](const Json &v) { return v.is_number_integer(); });
  return value ? node->inRange(*value, node->path + "." + key, low, high) : 0;
}

std::vector<int64_t> Document::integers(const char *key, int64_t low, int64_t high) const {
  std::vector<int64_t> result;
  const Json *list =
      node->member(key, "a list of integers", [](const Json &v) { return v.is_array(); });
  for (size_t i = 0; list && i < list->size(); ++i) {
    const std::string where = node->path + "." + key + "[" + std::to_string(i) + "]";
    if (!(*list)[i].is_number_integer())
      node->fail(where + ": expected an integer, got " + (*list)[i].type_name());
    else
      result.push_back(node->inRange((*list)[i], where, low, high));
  }
  return result;
}

std::string Document::text(const char *key) const {
  const Json *value = node->member(key, "a string", [](const Json &v) { return v.is_string(); });
  return value ? value->get<std::string>() : "";
}

Document Document::object(const char *key) const {
  const Json *value = node->member(key, "an object", [](const Json &v) { return v.is_object(); });
  return Document(Node{value ? *value : Json::object(), node->path + "." + key, node->error});
}

std::vector<Document> Document::objects(const char *key) const {
  std::vector<Document> result;
  const Json *list =
      node->member(key, "a list of objects", [](const Json &v) { return v.is_array(); });
  for (size_t i = 0; list && i < list->size(); ++i) {
    const std::string where = node->path + "." + key + "[" + std::to_string(i) + "]";
    if (!(*list)[i].is_object())
      node->fail(where + ": expected an object, got " + (*list)[i].type_name());
    else
      result.push_back(Document(Node{(*list)[i], where, node->error}));
  }
  return result;
}

std::string Document::dump() const {
  return node->value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const std::string &Document::error() const { return *node->error; }

} // namespace kvq

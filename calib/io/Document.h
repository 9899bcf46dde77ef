// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Typed access to a JSON document in a file's metadata. The first thing that is missing or wrong
// becomes the error; the values taken from then on are zero, so that a reader takes everything and
// asks once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvq {

class Document {
public:
  /// `name` is what messages call the document.
  static Document parse(const std::string &text, const std::string &name);
  ~Document();
  Document(Document &&) noexcept;
  Document(const Document &);
  Document &operator=(const Document &) = delete;

  /// In [low, high].
  int64_t integer(const char *key, int64_t low, int64_t high) const;
  std::vector<int64_t> integers(const char *key, int64_t low, int64_t high) const;
  std::string text(const char *key) const;
  Document object(const char *key) const;
  std::vector<Document> objects(const char *key) const;
  /// JSON text of this object.
  std::string dump() const;

  /// Of this document and all objects taken from it; one sentence, or empty.
  const std::string &error() const;

private:
  struct Node;
  explicit Document(Node node);
  std::unique_ptr<Node> node;
};

} // namespace kvq

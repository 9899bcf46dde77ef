// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bytes of whole files. Errors are one sentence; an empty string is success.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvq {

/// A piece of memory that someone else owns.
struct ByteSpan {
  const void *data = nullptr;
  size_t size = 0;

  const uint8_t *bytes() const { return static_cast<const uint8_t *>(data); }
};

/// The bytes of a file, or a copy of some bytes, at an address that is a multiple of 64. Movable,
/// not copyable.
class FileBytes {
public:
  FileBytes() = default;
  FileBytes(FileBytes &&other) noexcept;
  FileBytes &operator=(FileBytes &&other) noexcept;
  FileBytes(const FileBytes &) = delete;
  FileBytes &operator=(const FileBytes &) = delete;
  ~FileBytes();

  /// Reads a file into memory: a later change of the file cannot be seen here.
  static std::string read(const std::string &path, FileBytes &out);
  /// Maps a file, for files larger than one wants in memory. The file must not shrink while it is
  /// mapped.
  static std::string map(const std::string &path, FileBytes &out);
  static std::string copy(ByteSpan bytes, FileBytes &out);

  ByteSpan span() const { return {data, size}; }

private:
  bool allocate(size_t bytes);

  void *data = nullptr;
  size_t size = 0;
  bool mapped = false;
};

/// Writes the pieces one after the other into a temporary file beside `path` and renames it: `path`
/// is the old file or the new one, never a part.
std::string writeFile(const std::string &path, const std::vector<ByteSpan> &pieces);

} // namespace kvq

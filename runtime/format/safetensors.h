// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reader and writer of safetensors files: u64 length of a JSON header, the header, then the bytes
// of the tensors without gaps. Errors are one sentence; an empty string is success. No exception
// leaves these functions.
#pragma once

#include "runtime/format/file.h"

#include <map>
#include <string>
#include <vector>

namespace kvq {

enum class TensorType : uint8_t {
  boolean,
  u8,
  i8,
  f8e4m3,
  f8e5m2,
  u16,
  i16,
  f16,
  bf16,
  u32,
  i32,
  f32,
  u64,
  i64,
  f64,
};
/// Bytes of an element.
int tensorBytes(TensorType type);
/// Name in the file: "BF16".
const char *tensorTypeName(TensorType type);

/// A tensor, row-major and little-endian. The data may lie at any address: read elements with
/// memcpy.
struct TensorView {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<int64_t> shape;
  ByteSpan data;

  int64_t elements() const;
};

/// "BF16 [1024, 3, 64]", for messages.
std::string tensorText(TensorType type, const std::vector<int64_t> &shape);

class Safetensors {
public:
  /// Maps the file: memory grows with what is read of it, not with its size. It must not shrink
  /// while it is open.
  static std::string open(const std::string &path, Safetensors &out);
  static std::string parse(FileBytes bytes, Safetensors &out);

  /// Null if there is no such tensor.
  const TensorView *find(const std::string &name) const;
  /// Like find, but an error that names what is missing or wrong; -1 in `shape` takes any size.
  std::string get(const std::string &name, const std::vector<TensorType> &types,
                  const std::vector<int64_t> &shape, const TensorView *&out) const;

  /// In ascending byte order of their names.
  const std::vector<TensorView> &tensors() const { return views; }
  const std::map<std::string, std::string> &metadata() const { return strings; }

private:
  std::string parseHeader(const char *text, size_t size, ByteSpan data);

  FileBytes bytes;
  std::vector<TensorView> views;
  std::map<std::string, std::string> strings;
};

/// Digest over the bytes of all tensors, joined in ascending byte order of their names, as 64
/// hexadecimal digits. It is what the metadata of traces and calibration files carry.
std::string tensorDigest(std::vector<TensorView> tensors);

/// Writes tensors in ascending byte order of their names. Equal input gives equal bytes; the file
/// is replaced as a whole or not at all. The metadata values must be UTF-8.
std::string writeSafetensors(const std::string &path, std::vector<TensorView> tensors,
                             const std::map<std::string, std::string> &metadata);

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What reader and writer of the library file share; library.h describes the file.
#pragma once

#include "runtime/format/library.h"
#include "runtime/format/sha256.h"

#include <cstring>

namespace kvq::library_file {

inline constexpr char kMagic[8] = {'\x89', 'K', 'V', 'Q', 'L', 'I', 'B', '\n'};
inline constexpr size_t kHeaderBytes = 128, kBlobBytes = 64, kKernelBytes = 192, kLayerBytes = 8;
inline constexpr size_t kAlign = 64;
inline constexpr size_t kTargetBytes = 16, kLevelBytes = 64, kSymbolBytes = 64;
inline constexpr uint32_t kMaxFormats = 1024, kMaxLayers = 65536;
inline constexpr uint32_t kMaxEntries =
    8192;                                ///< blobs, and kernels; far above what a library holds
inline constexpr uint32_t kOptional = 1; ///< flag: may be left out by who does not know it
enum BlobKind : uint32_t { manifestBlob, methodBlob, constantsBlob, objectBlob, kBlobKinds };

inline size_t roundUp(size_t x) { return (x + kAlign - 1) / kAlign * kAlign; }

/// Number of the first object among the blobs, and the kind of the blobs in front of it.
inline uint32_t firstObject(uint32_t formats) { return 1 + 2 * formats; }
inline BlobKind kindOf(uint32_t blob, uint32_t formats) {
  if (blob >= firstObject(formats))
    return objectBlob;
  return blob == 0 ? manifestBlob : blob % 2 ? methodBlob : constantsBlob;
}

/// Empty, or why a file cannot hold the kernel, or the layers.
std::string checkKernel(const LibraryKernel &kernel, size_t objects, size_t formats);
std::string checkLayers(const std::vector<LibraryLayer> &layers, size_t formats);

/// Appends little-endian fields.
class FieldWriter {
public:
  explicit FieldWriter(std::string &out) : out(out) {}
  void integer(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      out += char(value >> (8 * i));
  }
  void text(const std::string &value, size_t bytes) { out += value, zeros(bytes - value.size()); }
  void digest(const Digest &value) { out.append(value.begin(), value.end()); }
  void zeros(size_t bytes) { out.append(bytes, '\0'); }

private:
  std::string &out;
};

/// Takes little-endian fields; the caller has checked that they lie in the file.
class FieldReader {
public:
  explicit FieldReader(const uint8_t *at) : at(at) {}
  uint64_t integer(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i)
      value |= uint64_t(*at++) << (8 * i);
    return value;
  }
  uint32_t u32() { return uint32_t(integer(4)); }
  /// False if the text does not end in zero bytes.
  bool text(size_t bytes, std::string &out) {
    const size_t length = ::strnlen(reinterpret_cast<const char *>(at), bytes);
    out.assign(reinterpret_cast<const char *>(at), length);
    at += length;
    return length < bytes && zeros(bytes - length);
  }
  Digest digest() {
    Digest value;
    std::memcpy(value.data(), at, value.size());
    at += value.size();
    return value;
  }
  bool zeros(size_t bytes) {
    bool zero = true;
    for (; bytes; --bytes)
      zero &= *at++ == 0;
    return zero;
  }

private:
  const uint8_t *at;
};

} // namespace kvq::library_file

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Digests of a library file, made anew after a change: what stands behind them is then tested, too.
#pragma once

#include "runtime/format/library_fields.h"

#include <algorithm>
#include <utility>

namespace kvq::test {

/// Writes size and digests as the header and the tables ask for, as far as they lie in the file;
/// works for any bytes.
inline void reseal(std::string &file) {
  using namespace library_file;
  if (file.size() < kHeaderBytes)
    return;
  auto *bytes = reinterpret_cast<uint8_t *>(&file[0]);
  auto number = [&](size_t at, int count) { return FieldReader(bytes + at).integer(count); };
  auto put = [&](size_t at, const Digest &digest) {
    std::copy(digest.begin(), digest.end(), bytes + at);
  };
  for (int i = 0; i < 8; ++i)
    bytes[16 + i] = uint8_t(uint64_t(file.size()) >> (8 * i));
  // Counts and sizes of entries: blobs, kernels, layers. None above the file's size, so that
  // nothing overflows.
  bool tables = true;
  uint64_t end = kHeaderBytes;
  for (auto [count, each] : {std::pair(24, 40), std::pair(28, 44), std::pair(36, 48)}) {
    tables &= number(count, 4) <= file.size() && number(each, 4) <= file.size();
    end += tables ? number(count, 4) * number(each, 4) : 0;
  }
  tables &= end <= file.size();
  const uint64_t blobs = number(24, 4), blobBytes = number(40, 4);
  for (uint64_t i = 0; tables && blobBytes >= kBlobBytes && i < blobs; ++i) {
    const size_t entry = size_t(kHeaderBytes + i * blobBytes);
    const uint64_t offset = number(entry + 8, 8), size = number(entry + 16, 8);
    if (offset <= file.size() && size <= file.size() - offset)
      put(entry + 32, sha256(bytes + offset, size_t(size)));
  }
  if (tables)
    put(64, sha256(bytes + kHeaderBytes, size_t(end - kHeaderBytes)));
  put(96, sha256(bytes, 96));
}

} // namespace kvq::test

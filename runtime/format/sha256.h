// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SHA-256 (FIPS 180-4). Digests tell whether a file is whole; they are no protection against a file
// made to deceive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace kvq {

using Digest = std::array<uint8_t, 32>;

/// Digest of bytes that arrive in pieces.
class Sha256 {
public:
  void update(const void *data, size_t size);
  /// The digest of all bytes so far; the object is used up.
  Digest finish();

private:
  void block(const uint8_t *bytes);

  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending = {};
  uint64_t length = 0; ///< bytes so far
};

Digest sha256(const void *data, size_t size);

/// 64 lower-case hexadecimal digits.
std::string digestText(const Digest &digest);

} // namespace kvq

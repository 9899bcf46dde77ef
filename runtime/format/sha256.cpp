// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/format/sha256.h"

#include <algorithm>
#include <cstring>

namespace kvq {
namespace {

// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotateRight(uint32_t x, int n) { return x >> n | x << (32 - n); }

uint32_t loadBigEndian(const uint8_t *p) {
  return uint32_t(p[0]) << 24 | uint32_t(p[1]) << 16 | uint32_t(p[2]) << 8 | p[3];
}

void storeBigEndian(uint8_t *p, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    p[i] = uint8_t(value >> (8 * (bytes - 1 - i)));
}

} // namespace

void Sha256::block(const uint8_t *bytes) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = loadBigEndian(bytes + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (rotateRight(a, 7) ^ rotateRight(a, 18) ^ a >> 3) + w[i - 7] +
           (rotateRight(b, 17) ^ rotateRight(b, 19) ^ b >> 10);
  }
  std::array<uint32_t, 8> s = state; // the standard's a..h
  for (int i = 0; i < 64; ++i) {
    const uint32_t e = s[4], a = s[0];
    const uint32_t t1 = s[7] + (rotateRight(e, 6) ^ rotateRight(e, 11) ^ rotateRight(e, 25)) +
                        ((e & s[5]) ^ (~e & s[6])) + kRound[i] + w[i];
    const uint32_t t2 = (rotateRight(a, 2) ^ rotateRight(a, 13) ^ rotateRight(a, 22)) +
                        ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (int i = 0; i < 8; ++i)
    state[i] += s[i];
}

void Sha256::update(const void *data, size_t size) {
  const uint8_t *bytes = static_cast<const uint8_t *>(data);
  size_t fill = length % 64;
  length += size;
  while (size) {
    if (fill == 0 && size >= 64) {
      block(bytes);
      bytes += 64, size -= 64;
      continue;
    }
    const size_t take = std::min(size, 64 - fill);
    std::memcpy(pending.data() + fill, bytes, take);
    bytes += take, size -= take, fill += take;
    if (fill == 64) {
      block(pending.data());
      fill = 0;
    }
  }
}

Digest Sha256::finish() {
  const uint64_t bits = 8 * length;
  const uint8_t padding[64] = {0x80};
  update(padding, 1 + (119 - length % 64) % 64);
  uint8_t size[8];
  storeBigEndian(size, bits, 8);
  update(size, 8);
  Digest digest;
  for (int i = 0; i < 8; ++i)
    storeBigEndian(digest.data() + 4 * i, state[i], 4);
  return digest;
}

Digest sha256(const void *data, size_t size) {
  Sha256 hash;
  hash.update(data, size);
  return hash.finish();
}

std::string digestText(const Digest &digest) {
  std::string text;
  for (uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The baseline: decode attention over a pool of random BF16 pages (bf16_decode.cu).
#pragma once

#include "tools/device/Device.h"
#include "tools/kvq-bench/PoolParts.h"
#include "tools/kvq-bench/Timing.h"

#include <vector>

namespace kvq {

class Bf16Decode {
public:
  static constexpr int64_t kQueryHeads = 32, kKvHeads = 8, kDim = 128, kPage = 64;

  /// `pages` of 256 KiB. Compares the kernel with the host first: throws std::runtime_error if it
  /// is wrong, or the pool too small for that.
  Bf16Decode(Device &device, int64_t pages);

  /// Launches of one case, each over another part of the pool. Throws std::runtime_error if the
  /// pool is too small.
  TimedGraph capture(const BenchCase &bench);

  /// Bytes of keys and values that a decode has to read.
  double bytesOf(const BenchCase &bench) const;
  const Buffer &memory() const { return pool; }

private:
  /// As in the kernel.
  struct Arguments {
    const uint8_t *pool;
    const int32_t *table;
    const uint8_t *queries;
    uint8_t *out;
    float *partial;
    uint32_t *counters;
    int32_t columns, length, segments;
  };

  Arguments argumentsOf(const BenchCase &bench, const PoolParts &parts) const;
  void launch(Arguments args) const;
  void check(const BenchCase &bench) const;
  /// float64 attention of one KV head of a sequence: its four rows.
  std::vector<double> expected(const BenchCase &bench, int64_t sequence, int64_t head) const;

  Device &device;
  const int64_t pages;
  const int blocks;
  std::vector<int32_t> ids;   ///< the page table
  std::vector<uint16_t> rows; ///< the queries
  Buffer pool, table, queries, output, partial, counters;
  PtxKernel kernel;
};

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A library with a pool of random records, and its decode over parts of the pool.
#pragma once

#include "runtime/format/method.h"
#include "tools/device/Device.h"
#include "tools/kvq-bench/PoolParts.h"
#include "tools/kvq-bench/Timing.h"

#include <string>

namespace kvq {

class Workload {
public:
  /// `name` is the short name of reports. Throws std::runtime_error. `page`: tokens; `pages`: of
  /// the pool.
  Workload(Device &device, const std::string &name, const std::string &path, int64_t page,
           int64_t pages);
  ~Workload();
  Workload(const Workload &) = delete;
  Workload &operator=(const Workload &) = delete;

  /// Launches of one case, each over another part of the pool. `prepared`: the query kernel is left
  /// out, its results are those of an earlier call. Throws std::runtime_error if the pool is too
  /// small.
  TimedGraph capture(const BenchCase &bench, bool prepared);

  /// Launches that read what those of decode do, and compute nothing.
  TimedGraph captureLoads(const BenchCase &bench);

  /// Bytes that a decode has to read of codes and parameters.
  double bytesOf(const BenchCase &bench) const;
  const std::string &fullName() const { return stem; }
  /// Rows and sides of a token: heads and channels.
  bool hasShape(int64_t queryHeads, int64_t kvHeads, int64_t dim) const {
    return method.q_heads == queryHeads && method.kv_heads == kvHeads &&
           method.key.record.dim == dim && method.value.record.dim == dim;
  }
  const Buffer &memory() const { return pool; }

  const std::string name;

private:
  void fillPool();
  std::vector<uint8_t> randomPages(int64_t count) const;
  void checkOutput(int64_t rows) const;

  Device &device;
  std::string stem;
  kvq_library *library = nullptr;
  CacheMethod method;
  RecordLayout layout;
  int64_t page, pages, pageStride;
  Buffer pool, table, lengths, queries, output, lse;
  std::unique_ptr<Buffer> workspace;
  std::unique_ptr<PtxKernel> loader;
};

} // namespace kvq

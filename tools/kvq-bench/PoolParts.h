// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shapes that are timed, and how launches share a pool so that nothing comes from a cache.
#pragma once

#include "tools/device/Device.h"

#include <string>
#include <vector>

namespace kvq {

constexpr int64_t kMaxBatch = 1024;

/// One shape of decode.
struct BenchCase {
  int64_t batch = 0, context = 0;

  std::string name() const; ///< "64x32768"
  static BenchCase parse(const std::string &text);
};

/// Launch i of a case reads part i % count.
struct PoolParts {
  int64_t columns, pages, count; ///< table columns, pages of a launch, disjoint parts
  int launches;

  /// `page`: tokens; `pages`: of the pool. Throws std::runtime_error if the pool is too small.
  PoolParts(const BenchCase &bench, int64_t page, int64_t pages);
};

/// A random order of all pages, twice: a launch may begin anywhere in the first. The same in every
/// run.
std::vector<int32_t> shuffledPages(int64_t pages);

/// Copies the first `made` bytes again and again until all of `pool` is full.
void repeatThrough(const Buffer &pool, size_t made);

} // namespace kvq

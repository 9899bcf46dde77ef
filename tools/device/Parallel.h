// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace kvq {

/// Runs fn(i) for each i of 0 .. items - 1 on all processors; fn does not throw.
template <typename Fn> void parallelFor(int64_t items, Fn fn) {
  std::atomic<int64_t> next{0};
  auto work = [&] {
    for (int64_t i = next++; i < items; i = next++)
      fn(i);
  };
  const int64_t processors = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < std::min(processors, items); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace kvq

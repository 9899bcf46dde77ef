// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "kvq/runtime.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace kvq {

/// Threads that stay, for the calls of one library. One job runs at a time; another caller waits.
class ThreadPool {
public:
  /// `threads` counts the calling thread; 0 is one per processor. Where the system refuses a
  /// thread, the pool has fewer.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// See kvq_parallel_for. Allocates nothing.
  void run(int64_t items, kvq_item_fn fn, void *task);

private:
  struct Job {
    kvq_item_fn fn = nullptr;
    void *task = nullptr;
    int64_t items = 0;
    int64_t chunk = 1; ///< items taken at once
  };

  bool start();
  void work();
  void drain(const Job &job);

  std::mutex callers; ///< held through a job
  std::mutex mutex;   ///< guards the members below
  std::condition_variable wake, finished;
  Job current;
  uint64_t generation = 0; ///< counts jobs
  size_t busy = 0;         ///< workers that have not finished the current job
  bool stop = false;
  std::atomic<int64_t> next{0}; ///< first item that nobody has taken
  std::vector<std::thread> workers;
};

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/ThreadPool.h"

#include <algorithm>
#include <system_error>

namespace kvq {

ThreadPool::ThreadPool(int threads) {
  const int wanted = threads > 0 ? threads : int(std::thread::hardware_concurrency());
  workers.reserve(size_t(std::max(wanted - 1, 0)));
  for (int i = 1; i < wanted && start(); ++i)
    ;
}

bool ThreadPool::start() {
  try {
    workers.emplace_back([this] { work(); });
    return true;
  } catch (const std::system_error &) {
    return false; // work gets done with the threads there are
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    stop = true;
  }
  wake.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::drain(const Job &job) {
  for (;;) {
    const int64_t begin = next.fetch_add(job.chunk, std::memory_order_relaxed);
    if (begin >= job.items)
      return;
    const int64_t end = std::min(begin + job.chunk, job.items);
    for (int64_t i = begin; i < end; ++i)
      job.fn(job.task, i);
  }
}

void ThreadPool::work() {
  uint64_t seen = 0;
  for (;;) {
    Job job;
    {
      std::unique_lock<std::mutex> lock(mutex);
      wake.wait(lock, [&] { return stop || generation != seen; });
      if (stop)
        return;
      seen = generation;
      job = current;
    }
    drain(job);
    const std::lock_guard<std::mutex> lock(mutex);
    if (--busy == 0)
      finished.notify_one();
  }
}

void ThreadPool::run(int64_t items, kvq_item_fn fn, void *task) {
  if (items <= 1 || workers.empty()) {
    for (int64_t i = 0; i < items; ++i)
      fn(task, i);
    return;
  }
  const std::lock_guard<std::mutex> call(callers);
  // Chunks small enough that threads end together, large enough that taking one costs nothing.
  Job job{fn, task, items, std::max<int64_t>(1, items / (8 * int64_t(workers.size() + 1)))};
  {
    const std::lock_guard<std::mutex> lock(mutex);
    current = job;
    next.store(0, std::memory_order_relaxed);
    busy = workers.size();
    ++generation;
  }
  wake.notify_all();
  drain(job);
  std::unique_lock<std::mutex> lock(mutex);
  finished.wait(lock, [&] { return busy == 0; });
}

} // namespace kvq

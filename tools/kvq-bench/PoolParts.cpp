// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-bench/PoolParts.h"

#include "tools/device/CudaDriver.h"
#include "tools/device/Flags.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>

namespace kvq {
namespace {

constexpr int64_t kManyTokens = 1000000; ///< of a launch: fewer launches then make a graph
constexpr int kFewLaunches = 4, kLaunches = 16;

} // namespace

std::string BenchCase::name() const {
  return std::to_string(batch) + "x" + std::to_string(context);
}

BenchCase BenchCase::parse(const std::string &text) {
  const std::vector<std::string> numbers = splitText(text, 'x');
  if (numbers.size() != 2)
    throw std::runtime_error("--case: expected BATCHxCONTEXT, got '" + text + "'");
  const BenchCase out = {parseNumber("--case", numbers[0], 1),
                         parseNumber("--case", numbers[1], 1)};
  if (out.batch > kMaxBatch || out.context > INT32_MAX)
    throw std::runtime_error("--case: expected at most " + std::to_string(kMaxBatch) +
                             " sequences, got '" + text + "'");
  return out;
}

PoolParts::PoolParts(const BenchCase &bench, int64_t page, int64_t pages)
    : columns((bench.context + page - 1) / page), pages(bench.batch * columns),
      count(pages / this->pages) {
  if (count == 0)
    throw std::runtime_error(bench.name() + ": expected a pool of " + std::to_string(this->pages) +
                             " pages, got " + std::to_string(pages));
  const int few = bench.batch * bench.context > kManyTokens ? kFewLaunches : kLaunches;
  launches = int(std::max<int64_t>(few, count));
}

std::vector<int32_t> shuffledPages(int64_t pages) {
  std::vector<int32_t> ids(pages);
  std::iota(ids.begin(), ids.end(), 0);
  std::mt19937_64 random{uint64_t(pages)};
  std::shuffle(ids.begin(), ids.end(), random);
  ids.resize(2 * pages);
  std::copy_n(ids.begin(), pages, ids.begin() + pages);
  return ids;
}

void repeatThrough(const Buffer &pool, size_t made) {
  const cuda::ToolDriver &driver = cuda::toolDriver();
  for (size_t done = made; done < pool.bytes(); done *= 2)
    cuda::requireCuda("cuMemcpyDtoD", driver.memcpyDtoD(pool.data() + done, pool.data(),
                                                        std::min(done, pool.bytes() - done)));
  cuda::requireCuda("cuCtxSynchronize", driver.ctxSynchronize());
}

} // namespace kvq

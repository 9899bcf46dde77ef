// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-bench/Bf16Decode.h"

#include "runtime/reference/convert.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

namespace kvq {
namespace {

constexpr int64_t kGroup = Bf16Decode::kQueryHeads / Bf16Decode::kKvHeads;
constexpr int64_t kSideElements = Bf16Decode::kPage * Bf16Decode::kDim;
constexpr int64_t kHeadBytes = 2 * 2 * kSideElements;
constexpr int64_t kPageBytes = Bf16Decode::kKvHeads * kHeadBytes;
constexpr int64_t kRowBytes = 2 * Bf16Decode::kQueryHeads * Bf16Decode::kDim; ///< of a sequence
constexpr int64_t kDistinctPages = 64; ///< made on the host, then copied through the pool
/// As in the kernel: threads, blocks of a multiprocessor, shared bytes, numbers of a partial
/// result.
constexpr int kWarps = 8, kBlocks = 2;
constexpr int kPartial = kGroup * Bf16Decode::kDim + 2 * kGroup;
constexpr int kShared = kWarps * (3 * 4096 + 4 * kPartial);
/// Relative error of a row: rounding to BF16 alone makes 2^-8 / sqrt(3) or less of one element.
constexpr double kTolerance = 3e-3;
/// Sequences that many blocks share, and blocks with many sequences; last pages that are not full.
constexpr BenchCase kChecks[] = {{3, 1000}, {70, 65}};

const char kText[] = {
#include "Bf16Decode.inc" // made from bf16_decode.ptx
};

std::vector<uint16_t> normalRows(size_t count, uint64_t seed) {
  std::mt19937_64 random{seed};
  std::normal_distribution<float> normal;
  std::vector<uint16_t> out(count);
  for (uint16_t &bits : out)
    bits = bf16Bits(normal(random));
  return out;
}

} // namespace

Bf16Decode::Bf16Decode(Device &device, int64_t pages)
    : device(device), pages(pages), blocks(kBlocks * multiprocessors()), ids(shuffledPages(pages)),
      rows(normalRows(size_t(kMaxBatch * kRowBytes / 2), 1)),
      pool(device, size_t(pages * kPageBytes)), table(device, 4 * ids.size()),
      queries(device, 2 * rows.size()), output(device, 2 * rows.size()),
      partial(device, size_t((blocks + kMaxBatch * kKvHeads) * kPartial * 4)),
      counters(device, size_t(kMaxBatch * kKvHeads * 4)), kernel(kText, "bf16_decode") {
  const int64_t made = std::min(kDistinctPages, pages);
  device.write(pool.data(), normalRows(size_t(made * kPageBytes / 2), 2).data(),
               size_t(made * kPageBytes));
  repeatThrough(pool, size_t(made * kPageBytes));
  table.write(ids.data());
  queries.write(rows.data());
  counters.fill(0);
  kernel.allowShared(kShared);
  for (const BenchCase &bench : kChecks)
    check(bench);
}

double Bf16Decode::bytesOf(const BenchCase &bench) const {
  return double(PoolParts(bench, kPage, pages).pages * kPageBytes);
}

Bf16Decode::Arguments Bf16Decode::argumentsOf(const BenchCase &bench,
                                              const PoolParts &parts) const {
  return {pool.data(),
          reinterpret_cast<const int32_t *>(table.data()),
          queries.data(),
          output.data(),
          reinterpret_cast<float *>(partial.data()),
          reinterpret_cast<uint32_t *>(counters.data()),
          int32_t(parts.columns),
          int32_t(bench.context),
          int32_t(bench.batch * kKvHeads)};
}

void Bf16Decode::launch(Arguments args) const {
  // No block without work: the blocks of a segment are counted by their numbers.
  const int64_t units = int64_t(args.segments) * args.columns;
  void *parameters[] = {&args};
  kernel.launch(static_cast<cuda::Stream>(device.stream()), int(std::min<int64_t>(blocks, units)),
                32 * kWarps, kShared, true, parameters);
}

TimedGraph Bf16Decode::capture(const BenchCase &bench) {
  const PoolParts parts(bench, kPage, pages);
  return TimedGraph(static_cast<cuda::Stream>(device.stream()), parts.launches, [&](int i) {
    Arguments args = argumentsOf(bench, parts);
    args.table += i % parts.count * parts.pages;
    launch(args);
  });
}

std::vector<double> Bf16Decode::expected(const BenchCase &bench, int64_t sequence,
                                         int64_t head) const {
  const int64_t columns = (bench.context + kPage - 1) / kPage;
  std::vector<uint16_t> sides(size_t(columns * 2 * kSideElements));
  for (int64_t i = 0; i < columns; ++i)
    device.read(&sides[size_t(i * 2 * kSideElements)],
                pool.data() + ids[size_t(sequence * columns + i)] * kPageBytes + head * kHeadBytes,
                size_t(kHeadBytes));
  std::vector<double> out(size_t(kGroup * kDim));
  for (int64_t row = 0; row < kGroup; ++row) {
    const uint16_t *query = &rows[size_t(((sequence * kKvHeads + head) * kGroup + row) * kDim)];
    double sum = 0; // scores of these data are small, no maximum is needed
    for (int64_t token = 0; token < bench.context; ++token) {
      const uint16_t *key =
          &sides[size_t(token / kPage * 2 * kSideElements + token % kPage * kDim)];
      double score = 0;
      for (int64_t i = 0; i < kDim; ++i)
        score += double(bf16Value(query[i])) * double(bf16Value(key[i]));
      const double weight = std::exp(score / std::sqrt(double(kDim)));
      sum += weight;
      for (int64_t i = 0; i < kDim; ++i)
        out[size_t(row * kDim + i)] += weight * double(bf16Value(key[kSideElements + i]));
    }
    for (int64_t i = 0; i < kDim; ++i)
      out[size_t(row * kDim + i)] /= sum;
  }
  return out;
}

void Bf16Decode::check(const BenchCase &bench) const {
  output.fill(0xff);
  launch(argumentsOf(bench, PoolParts(bench, kPage, pages)));
  std::vector<uint16_t> got(size_t(bench.batch * kRowBytes / 2));
  device.read(got.data(), output.data(), 2 * got.size());
  const uint16_t *at = got.data();
  for (int64_t segment = 0; segment < bench.batch * kKvHeads; ++segment) {
    const std::vector<double> want = expected(bench, segment / kKvHeads, segment % kKvHeads);
    for (int64_t row = 0; row < kGroup; ++row) {
      double error = 0, size = 0;
      for (int64_t i = 0; i < kDim; ++i) {
        const double value = want[size_t(row * kDim + i)];
        error += std::pow(double(bf16Value(*at++)) - value, 2);
        size += value * value;
      }
      const double relative = std::sqrt(error / size);
      if (!(relative <= kTolerance))
        throw std::runtime_error("bf16 decode of " + bench.name() + ": sequence " +
                                 std::to_string(segment / kKvHeads) + ", query head " +
                                 std::to_string(segment % kKvHeads * kGroup + row) +
                                 ": relative error " + std::to_string(relative) +
                                 ", expected at most " + std::to_string(kTolerance));
    }
  }
}

} // namespace kvq

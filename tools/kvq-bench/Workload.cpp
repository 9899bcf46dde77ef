// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-bench/Workload.h"

#include "runtime/format/file.h"
#include "runtime/reference/Page.h"
#include "runtime/reference/convert.h"
#include "tools/kvq-bench/LaunchFilter.h"

#include <algorithm>
#include <random>
#include <stdexcept>

namespace kvq {
namespace {

constexpr int64_t kDistinctPages = 256; ///< made on the host, then copied through the pool
/// Of the kernel that only loads: as many warps as decode has; with so much shared memory exactly
/// one block lies on a multiprocessor.
constexpr int64_t kLoadWarps = 8, kLoadShared = 220 * 1024, kOneBlockShared = 118 * 1024;

const char kLoadOnly[] = {
#include "LoadOnly.inc" // made from load_only.ptx
};

void require(const std::string &what, kvq_status status) {
  if (status != KVQ_OK)
    throw std::runtime_error(what + ": " + kvq_last_error());
}

kvq_library *openLibrary(const std::string &path, Device &device) {
  kvq_open_options options = {};
  options.size = sizeof options;
  options.target = device.target();
  kvq_library *library = nullptr;
  require("'" + path + "'", kvq_open(path.c_str(), &options, &library));
  return library;
}

CacheMethod methodOf(const kvq_library *library) {
  CacheMethod method;
  if (std::string error = parseMethod(kvq_method_text(library, 0), method); !error.empty())
    throw std::runtime_error(error);
  return method;
}

RecordLayout layoutOf(const CacheMethod &method, int64_t page) {
  RecordSpec spec = method.record();
  spec.page = int(page);
  return buildRecord(spec);
}

/// Writes scales in [0.5, 1) and zeros around the middle of the codes for a value near 0: normal
/// logits, as rows of a model have them.
void fillParameters(const RecordLayout &layout, uint8_t *record, std::mt19937_64 &random) {
  auto unit = [&] { return double(random() >> 40) * 0x1p-24; };
  for (char side : {'k', 'v'}) {
    const RecordSide &spec = sideOf(layout.spec, side);
    const double middle = ((1 << spec.bits) - 1) / 2.0;
    const double step = 3.0 / ((1 << spec.bits) - 1);
    for (int64_t token = 0; token < layout.spec.page; ++token)
      for (int64_t channel = 0; channel < spec.dim; channel += spec.group ? spec.group : spec.dim) {
        const float scale = roundToElement(spec.element, float(step * (0.5 + 0.5 * unit())));
        const double zero = spec.form == ParameterForm::zero ? middle : -middle * scale;
        putElement(layout, record, side, FieldKind::scale, token, channel,
                   encodeElement(spec.element, scale));
        putElement(layout, record, side, FieldKind::zero, token, channel,
                   encodeElement(spec.element, float(zero * (0.9 + 0.2 * unit()))));
      }
  }
}

} // namespace

Workload::Workload(Device &device, const std::string &name, const std::string &path, int64_t page,
                   int64_t pages)
    : name(name), device(device), stem(path.substr(path.rfind('/') + 1)),
      library(openLibrary(path, device)), method(methodOf(library)), layout(layoutOf(method, page)),
      page(page), pages(pages), pageStride(method.kv_heads * layout.stride),
      pool(device, size_t(pages * pageStride)), table(device, size_t(8 * pages)),
      lengths(device, 4 * kMaxBatch),
      queries(device, size_t(4 * kMaxBatch * method.q_heads * method.key.record.dim)),
      output(device, size_t(4 * kMaxBatch * method.q_heads * method.value.record.dim)),
      lse(device, size_t(4 * kMaxBatch * method.q_heads)) {
  stem = stem.substr(0, stem.rfind('.'));
  require("'" + path + "'", kvq_supports(library, nullptr, nullptr, 0, nullptr));
  fillPool();
  table.write(shuffledPages(pages).data());
  std::mt19937_64 random{uint64_t(pages)}; // the same in every run
  std::normal_distribution<float> normal;
  std::vector<uint8_t> rows(queries.bytes());
  const ElementType type = method.attention.rows;
  for (size_t at = 0; at + 4 <= rows.size(); at += size_t(elementBytes(type))) {
    const uint32_t bits = encodeElement(type, normal(random));
    std::memcpy(&rows[at], &bits, size_t(elementBytes(type)));
  }
  queries.write(rows.data());
}

Workload::~Workload() { kvq_close(library); }

std::vector<uint8_t> Workload::randomPages(int64_t count) const {
  std::mt19937_64 random{uint64_t(count)}; // the same in every run
  std::vector<uint8_t> bytes(count * pageStride);
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const uint64_t word = random();
    std::memcpy(&bytes[i], &word, 8);
  }
  for (int64_t record = 0; record < count * method.kv_heads; ++record)
    fillParameters(layout, &bytes[record * layout.stride], random);
  return bytes;
}

void Workload::fillPool() {
  const int64_t made = std::min(kDistinctPages, pages);
  const std::vector<uint8_t> bytes = randomPages(made);
  device.write(pool.data(), bytes.data(), bytes.size());
  repeatThrough(pool, bytes.size());
}

double Workload::bytesOf(const BenchCase &bench) const {
  const int64_t records = PoolParts(bench, page, pages).pages * method.kv_heads;
  return double(records * layout.bytes);
}

TimedGraph Workload::captureLoads(const BenchCase &bench) {
  const PoolParts parts(bench, page, pages);
  if (!loader)
    loader = std::make_unique<PtxKernel>(kLoadOnly, "load_only");
  const int64_t recordBytes = (layout.bytes + 15) / 16 * 16; // a copy is a multiple of 16
  const int warps = int(std::min<int64_t>(kLoadWarps, kLoadShared / (2 * recordBytes + 16)));
  if (warps == 0)
    throw std::runtime_error("load only: a record of " + std::to_string(recordBytes) +
                             " bytes does not fit twice in shared memory");
  const int shared = int(std::max<int64_t>(warps * (2 * recordBytes + 16), kOneBlockShared));
  loader->allowShared(shared);
  int blocks = 1;
  while (2 * blocks <= multiprocessors())
    blocks *= 2;
  uint64_t from = reinterpret_cast<uint64_t>(pool.data());
  uint64_t between = uint64_t(pageStride), heads = uint64_t(layout.stride);
  uint32_t columns = uint32_t(parts.columns), headCount = uint32_t(method.kv_heads);
  uint32_t records = uint32_t(parts.pages * method.kv_heads), bytes = uint32_t(recordBytes);
  const auto stream = static_cast<cuda::Stream>(device.stream());
  return TimedGraph(stream, parts.launches, [&](int i) {
    uint64_t ids =
        reinterpret_cast<uint64_t>(table.data()) + uint64_t(4 * (i % parts.count) * parts.pages);
    void *parameters[] = {&from, &between, &heads, &ids, &columns, &headCount, &records, &bytes};
    loader->launch(stream, blocks, 32 * warps, shared, true, parameters);
  });
}

TimedGraph Workload::capture(const BenchCase &bench, bool prepared) {
  const PoolParts parts(bench, page, pages);
  lengths.write(std::vector<int32_t>(kMaxBatch, int32_t(bench.context)).data());
  const int64_t size = elementBytes(method.attention.rows);
  kvq_decode_args args = {};
  args.size = sizeof args;
  args.q = queries.data(), args.out = output.data();
  args.q_head_stride = method.key.record.dim * size;
  args.q_token_stride = method.q_heads * args.q_head_stride;
  args.out_head_stride = method.value.record.dim * size;
  args.out_token_stride = method.q_heads * args.out_head_stride;
  args.lse = reinterpret_cast<float *>(lse.data());
  args.lse_head_stride = 4, args.lse_token_stride = 4 * method.q_heads;
  args.pool = {pool.data(), pageStride, layout.stride, page};
  args.table.ids = reinterpret_cast<const int32_t *>(table.data());
  args.table.row_stride = 4 * parts.columns, args.table.columns = parts.columns;
  args.lengths = reinterpret_cast<const int32_t *>(lengths.data());
  args.batch = bench.batch, args.max_length = bench.context;
  args.execution.stream = device.stream();
  require("workspace size", kvq_workspace_size(library, &args, &args.workspace_bytes));
  workspace = nullptr; // free before the next is taken
  workspace = std::make_unique<Buffer>(device, args.workspace_bytes);
  args.workspace = workspace->data();
  require("workspace",
          kvq_workspace_init(library, args.workspace, args.workspace_bytes, &args.execution));
  output.fill(0xff);
  require("decode", kvq_decode(library, &args)); // plan and queries of all that follow
  device.synchronize();
  checkOutput(bench.batch * method.q_heads);
  args.flags = KVQ_DECODE_PLANNED;
  leaveOutKernel(prepared ? "kvq_prepare" : "");
  TimedGraph graph(static_cast<cuda::Stream>(device.stream()), parts.launches, [&](int i) {
    args.table.ids =
        reinterpret_cast<const int32_t *>(table.data()) + i % parts.count * parts.pages;
    require("decode", kvq_decode(library, &args));
  });
  leaveOutKernel("");
  return graph;
}

/// A time of a kernel that computes nothing is no time: every number is there and finite.
void Workload::checkOutput(int64_t rows) const {
  const ElementType type = method.attention.rows;
  const int64_t size = elementBytes(type), count = rows * method.value.record.dim;
  std::vector<uint8_t> bytes(size_t(count * size));
  device.read(bytes.data(), output.data(), bytes.size());
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &bytes[size_t(i * size)], size_t(size));
    if (!std::isfinite(decodeElement(type, bits)))
      throw std::runtime_error("'" + stem + "': an element of the output is not finite");
  }
}

} // namespace kvq

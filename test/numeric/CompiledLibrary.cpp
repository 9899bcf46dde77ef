// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/numeric/CompiledLibrary.h"

#include "codegen/artifact/CompileCpu.h"
#include "codegen/artifact/LibraryBuilder.h"
#include "runtime/reference/Attention.h"
#include "runtime/reference/Tolerances.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <sys/mman.h>

namespace kvq::test {
namespace {

constexpr size_t kGuard = 4096;
constexpr uint8_t kGuardByte = 0x5a;

mlir::kvq::FormatArtifact compile(const MethodCase &c) {
  const mlir::kvq::CpuLevel level = mlir::kvq::hostCpuLevel();
  mlir::MLIRContext context;
  context.disableMultithreading();
  llvm::FailureOr<std::string> object = mlir::kvq::compileCpuShared(
      mlir::UnknownLoc::get(&context), c.method, level,
      [](llvm::StringRef, llvm::function_ref<void(llvm::raw_ostream &)>) {});
  EXPECT_TRUE(mlir::succeeded(object));
  const auto *constants = reinterpret_cast<const char *>(c.constants.data());
  return {c.method,
          {constants, 4 * c.constants.size()},
          mlir::succeeded(object) ? *object : "",
          level,
          "test"};
}

} // namespace

CompiledLibrary::CompiledLibrary(std::vector<MethodCase> given, std::vector<LibraryLayer> model)
    : methods(std::move(given)) {
  std::vector<mlir::kvq::FormatArtifact> formats;
  for (const MethodCase &c : methods)
    formats.push_back(compile(c));
  const LibraryContents contents = mlir::kvq::buildLibrary(std::move(formats), std::move(model));
  layers = contents.layers;
  std::string bytes;
  EXPECT_EQ(libraryBytes(contents, bytes), "");
  const kvq_open_options options = {sizeof options, KVQ_ALLOW_HOST_CODE, 2, KVQ_TARGET_CPU};
  EXPECT_EQ(kvq_open_memory(bytes.data(), bytes.size(), &options, &library), KVQ_OK)
      << kvq_last_error();
}

const MethodCase &CompiledLibrary::methodOf(int64_t layer) const {
  return methods[size_t(layers[size_t(layer)].format)];
}

int64_t CompiledLibrary::constantLayer(int64_t layer) const {
  return layers[size_t(layer)].constant_layer;
}

MethodCase exactMethod(int dim, int bits, int qHeads, int kvHeads) {
  MethodCase c = plainMethod(dim, dim, 1);
  c.method.q_heads = qHeads, c.method.kv_heads = kvHeads;
  for (SideMethod *side : {&c.method.key, &c.method.value})
    side->record.bits = bits, side->rows = ElementType::f32;
  c.method.attention.rows = ElementType::f32;
  return c;
}

PagedCache::PagedCache(const CompiledLibrary &library, const PoolShape &shape)
    : library(library), shape(shape) {
  RecordSpec spec = method().record();
  spec.page = int(shape.page);
  layout = buildRecord(spec);
  place = {shape.layer, shape.firstHead, shape.heads ? shape.heads : method().kv_heads};
  pool.page_tokens = shape.page;
  pool.head_stride = layout.stride + shape.headPadding;
  pool.page_stride = place.kv_heads * pool.head_stride + shape.pagePadding;
  poolBytes = shape.pages * pool.page_stride;
  pool.data = mmap(nullptr, size_t(poolBytes), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pool.data == MAP_FAILED) {
    ADD_FAILURE() << "no address space for " << poolBytes << " bytes";
    std::abort();
  }
  if (shape.fill >= 0)
    std::memset(pool.data, int(shape.fill), size_t(poolBytes));
}

PagedCache::~PagedCache() { munmap(pool.data, size_t(poolBytes)); }

kvq_status PagedCache::appendAt(const Inputs &inputs, const std::vector<int64_t> &slots,
                                uint32_t flags, int64_t reserved) {
  const CacheMethod &m = method();
  const Rows k(m.key.rows, inputs.k), v(m.value.rows, inputs.v);
  kvq_token_args args = {};
  args.size = sizeof args;
  args.k_head_stride = m.key.record.dim * elementBytes(k.type);
  args.v_head_stride = m.value.record.dim * elementBytes(v.type);
  args.k_token_stride = m.kv_heads * args.k_head_stride;
  args.v_token_stride = m.kv_heads * args.v_head_stride;
  args.k = const_cast<uint8_t *>(k.bytes.data()) + place.first_head * args.k_head_stride;
  args.v = const_cast<uint8_t *>(v.bytes.data()) + place.first_head * args.v_head_stride;
  const std::vector<int32_t> narrow(slots.begin(), slots.end());
  args.slots = flags & KVQ_SLOTS_32 ? static_cast<const void *>(narrow.data()) : slots.data();
  args.tokens = int64_t(slots.size());
  args.flags = flags, args.reserved_slot = reserved;
  args.pool = pool, args.place = place;
  return kvq_append(library.get(), &args);
}

void PagedCache::append(const Inputs &inputs, int64_t first, int64_t count,
                        const std::vector<int32_t> &pages) {
  const CacheMethod &m = method();
  const int64_t key = int64_t(m.kv_heads) * m.key.record.dim;
  const int64_t value = int64_t(m.kv_heads) * m.value.record.dim;
  const Inputs part = {
      {inputs.k.begin() + first * key, inputs.k.begin() + (first + count) * key},
      {inputs.v.begin() + first * value, inputs.v.begin() + (first + count) * value},
      {}};
  std::vector<int64_t> slots;
  for (int64_t token = first; token < first + count; ++token)
    slots.push_back(int64_t(pages.at(size_t(token / shape.page))) * shape.page +
                    token % shape.page);
  EXPECT_EQ(appendAt(part, slots), KVQ_OK) << kvq_last_error();
}

std::vector<double> PagedCache::rows(char side, int64_t head, int64_t tokens,
                                     const std::vector<int32_t> &pages) const {
  const MethodCase &c = library.methodOf(shape.layer);
  const Constants constants(c.method, c.constants.data());
  const RowPlace at = {library.constantLayer(shape.layer), place.first_head + head};
  std::vector<double> all;
  for (int64_t token = 0; token < tokens; ++token) {
    const std::vector<double> row =
        dequantize(c.method, layout, constants, at, record(pages[size_t(token / shape.page)], head),
                   side, token % shape.page);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

DecodeCall::DecodeCall(const PagedCache &cache, Request given)
    : request(std::move(given)), cache(cache), keyDim(cache.method().key.record.dim),
      valueDim(cache.method().value.record.dim) {
  const CacheMethod &m = cache.method();
  if (!request.ratio)
    request.ratio = m.q_heads / m.kv_heads;
  heads = cache.place.kv_heads * request.ratio;
  const auto tokens = int64_t(request.lengths.size()) * request.qLength;
  std::mt19937_64 random(request.seed);
  std::normal_distribution<float> normal;
  q.resize(size_t(tokens * heads * keyDim));
  std::generate(q.begin(), q.end(), [&] { return normal(random); });
  q = Rows(m.attention.rows, q).values();
  out.assign(size_t(tokens * heads * valueDim), 7);
  lse.assign(size_t(tokens * heads), 7);
  fillArguments();
}

void DecodeCall::fillArguments() {
  size_t columns = 1;
  for (const std::vector<int32_t> &pages : request.pages)
    columns = std::max(columns, pages.size());
  table.assign(columns * request.pages.size(), INT32_MAX);
  for (size_t i = 0; i < request.pages.size(); ++i)
    std::copy(request.pages[i].begin(), request.pages[i].end(), &table[i * columns]);
  args.size = sizeof args;
  args.q = q.data(), args.out = out.data(), args.lse = lse.data();
  const int64_t element = elementBytes(cache.method().attention.rows);
  args.q_head_stride = element * keyDim, args.q_token_stride = heads * args.q_head_stride;
  args.out_head_stride = element * valueDim, args.out_token_stride = heads * args.out_head_stride;
  args.lse_head_stride = 4, args.lse_token_stride = 4 * heads;
  args.q_length = request.qLength, args.q_heads = heads;
  args.pool = cache.pool, args.place = cache.place;
  args.table = {table.data(), nullptr, int64_t(4 * columns), int64_t(columns)};
  args.lengths = request.lengths.data(), args.batch = int64_t(request.lengths.size());
  args.max_length = request.bound;
  for (int32_t length : request.lengths)
    args.max_length = std::max<int64_t>(args.max_length, length);
  args.window = request.window, args.split_tokens = request.split;
  args.sinks = request.sinks.empty() ? nullptr : request.sinks.data();
}

void DecodeCall::run() {
  size_t bytes = 0;
  ASSERT_EQ(kvq_workspace_size(cache.library.get(), &args, &bytes), KVQ_OK) << kvq_last_error();
  workspace.assign(bytes + kGuard + KVQ_WORKSPACE_ALIGN, kGuardByte);
  uint8_t *start = workspace.data();
  start += -reinterpret_cast<uintptr_t>(start) % KVQ_WORKSPACE_ALIGN;
  args.workspace = start, args.workspace_bytes = bytes;
  const ElementType type = cache.method().attention.rows;
  const Rows encoded(type, q);
  Rows rows(type, out);
  if (type != ElementType::f32)
    args.q = encoded.bytes.data(), args.out = rows.bytes.data();
  ASSERT_EQ(kvq_decode(cache.library.get(), &args), KVQ_OK) << kvq_last_error();
  if (type != ElementType::f32)
    out = rows.values();
  EXPECT_EQ(std::count(start + bytes, start + bytes + kGuard, kGuardByte), int64_t(kGuard))
      << "bytes behind the workspace";
  EXPECT_EQ(std::count(out.begin(), out.end(), 7.0f), 0) << "outputs that were not written";
  EXPECT_EQ(std::count(lse.begin(), lse.end(), 7.0f), 0);
}

void DecodeCall::check() const {
  const CacheMethod &m = cache.method();
  const AttentionShape shape = {int(heads), int(cache.place.kv_heads), int(keyDim), int(valueDim),
                                request.qLength};
  AttentionRule rule;
  rule.scale = m.attention.scale, rule.softcap = m.attention.softcap, rule.window = request.window;
  rule.sinks.assign(request.sinks.begin(), request.sinks.end());
  const int64_t rows = request.qLength * heads;
  const double bound = kAttentionError + outputRounding(m.attention.rows);
  for (size_t i = 0; i < request.lengths.size(); ++i) {
    const int64_t length = request.lengths[i], first = int64_t(i) * rows;
    std::vector<double> keys, values;
    for (int64_t head = 0; head < cache.place.kv_heads; ++head)
      for (auto [side, all] : {std::pair('k', &keys), std::pair('v', &values)}) {
        const std::vector<double> own = cache.rows(side, head, length, request.pages[i]);
        all->insert(all->end(), own.begin(), own.end());
      }
    const std::vector<double> queries(&q[size_t(first * keyDim)],
                                      &q[size_t(first * keyDim)] + rows * keyDim);
    const AttentionResult expected = exactAttention(shape, rule, length, queries, keys, values);
    for (int64_t r = 0; r < rows; ++r) {
      const std::vector<double> got(row(first + r), row(first + r) + valueDim);
      const double sum = expected.lse[r];
      EXPECT_LE(relativeError(got.data(), &expected.out[r * valueDim], valueDim), bound)
          << "length " << length << " query token " << r / heads << " head " << r % heads;
      if (std::isinf(sum))
        EXPECT_EQ(lse[size_t(first + r)], -INFINITY);
      else
        EXPECT_LE(std::fabs(lse[size_t(first + r)] - sum),
                  kLseError * std::max(1.0, std::fabs(sum)));
    }
  }
}

bool DecodeCall::operator==(const DecodeCall &other) const {
  return out.size() == other.out.size() && lse.size() == other.lse.size() &&
         sameBits(out.data(), other.out.data(), out.size()) &&
         sameBits(lse.data(), other.lse.data(), lse.size());
}

bool sameBits(const float *a, const float *b, size_t count) {
  const void *left = a, *right = b;
  return std::memcmp(left, right, 4 * count) == 0;
}

std::vector<int32_t> pageRun(int32_t first, int64_t count) {
  std::vector<int32_t> pages(size_t(count), 0);
  std::iota(pages.begin(), pages.end(), first);
  return pages;
}

} // namespace kvq::test

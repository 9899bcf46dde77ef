// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/numeric/Kernels.h"

#include "codegen/artifact/CompileCpu.h"
#include "codegen/conversion/BuildKernels.h"
#include "runtime/reference/convert.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

namespace kvq::test {

std::unique_ptr<Kernels> Kernels::compile(const CacheMethod &method, mlir::kvq::CpuLevel level) {
  mlir::MLIRContext context;
  context.disableMultithreading();
  llvm::FailureOr<std::string> object = mlir::kvq::compileCpuShared(
      mlir::UnknownLoc::get(&context), method, level,
      [](llvm::StringRef, llvm::function_ref<void(llvm::raw_ostream &)>) {});
  if (mlir::failed(object))
    return nullptr;
  int file = memfd_create("kernels", 0);
  if (file < 0 ||
      write(file, object->data(), object->size()) != static_cast<ssize_t>(object->size()))
    return nullptr;
  std::unique_ptr<Kernels> kernels(new Kernels);
  kernels->handle =
      dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  close(file);
  if (!kernels->handle) {
    std::fprintf(stderr, "%s\n", dlerror());
    return nullptr;
  }
  kernels->append = reinterpret_cast<kvq_cpu_token_fn>(dlsym(kernels->handle, "kvq_append"));
  kernels->prepare = reinterpret_cast<kvq_cpu_decode_fn>(dlsym(kernels->handle, "kvq_prepare"));
  kernels->decode = reinterpret_cast<kvq_cpu_decode_fn>(dlsym(kernels->handle, "kvq_decode"));
  kernels->merge = reinterpret_cast<kvq_cpu_decode_fn>(dlsym(kernels->handle, "kvq_merge"));
  kernels->workspace = mlir::kvq::workspaceOf(method);
  return kernels;
}

Kernels::~Kernels() {
  if (handle)
    dlclose(handle);
}

Rows::Rows(ElementType type, const std::vector<float> &values)
    : Rows(type, static_cast<int64_t>(values.size())) {
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = encodeElement(type, values[i]);
    std::memcpy(&bytes[i * elementBytes(type)], &bits, elementBytes(type));
  }
}

std::vector<float> Rows::values() const {
  std::vector<float> result(bytes.size() / elementBytes(type));
  for (size_t i = 0; i < result.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &bytes[i * elementBytes(type)], elementBytes(type));
    result[i] = decodeElement(type, bits);
  }
  return result;
}

Cache::Cache(const CacheMethod &method, const std::vector<float> &constants, int64_t capacity,
             int page, uint64_t seed)
    : method(method), page(page), alignedConstants(constants.size() + 16) {
  RecordSpec spec = method.record();
  spec.page = page;
  layout = buildRecord(spec);
  pages = (capacity + page - 1) / page + 2;
  poolBytes = pages * method.kv_heads * layout.stride;
  storage.assign(poolBytes + kRecordAlign, 0xff);
  auto aligned = (reinterpret_cast<uintptr_t>(storage.data()) + kRecordAlign - 1) / kRecordAlign *
                 kRecordAlign;
  pool = reinterpret_cast<uint8_t *>(aligned);
  for (int64_t i = 0; i < pages; ++i)
    table.push_back(static_cast<int32_t>(i));
  std::shuffle(table.begin(), table.end(), std::mt19937_64(seed));
  // Ids past the last needed page are not read: this one would fault.
  table.back() = INT32_MAX;
  auto *start = reinterpret_cast<float *>(
      (reinterpret_cast<uintptr_t>(alignedConstants.data()) + 63) / 64 * 64);
  std::copy(constants.begin(), constants.end(), start);
  this->constants = start;
}

uint8_t *Cache::record(int64_t token, int head) {
  return pool + (table[token / page] * int64_t(method.kv_heads) + head) * layout.stride;
}

void Cache::append(const Kernels &kernels, const Rows &k, const Rows &v, int64_t first,
                   int64_t count, const std::vector<int64_t> &order) {
  std::vector<int64_t> slots(first + count, -1);
  for (int64_t token = first; token < first + count; ++token)
    slots[token] = int64_t(table[token / page]) * page + token % page;
  kvq_token_kernel_args args{};
  args.slot_bytes = 8;
  args.reserved_slot = -1;
  args.k = k.bytes.data();
  args.v = v.bytes.data();
  args.k_head_stride = method.key.record.dim * elementBytes(k.type);
  args.v_head_stride = method.value.record.dim * elementBytes(v.type);
  args.k_token_stride = method.kv_heads * args.k_head_stride;
  args.v_token_stride = method.kv_heads * args.v_head_stride;
  args.slots = slots.data();
  args.pool = pool;
  args.head_stride = layout.stride;
  args.page_stride = method.kv_heads * layout.stride;
  args.page_tokens = page;
  args.tokens = first + count;
  args.kv_heads = method.kv_heads;
  args.layer = layer;
  args.constants = constants;
  for (int64_t i = first; i < first + count; ++i)
    for (int head = 0; head < method.kv_heads; ++head)
      kernels.append(&args, (order.empty() ? i : order[i]) * method.kv_heads + head);
}

Cache::Attention Cache::decode(const Kernels &kernels, const Rows &q,
                               const std::vector<int32_t> &lengths, int64_t splitTokens) {
  int64_t batch = static_cast<int64_t>(lengths.size()), dim = method.value.record.dim;
  int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<int32_t> tables;
  for (int64_t i = 0; i < batch; ++i)
    tables.insert(tables.end(), table.begin(), table.end());
  Rows out(q.type, batch * method.q_heads * dim);
  std::fill(out.bytes.begin(), out.bytes.end(), 0xff);
  Attention result;
  result.lse.assign(batch * method.q_heads, NAN);
  kvq_decode_kernel_args args{};
  args.q_length = args.row_blocks = 1;
  args.ratio = method.q_heads / method.kv_heads;
  args.window = INT32_MAX;
  args.max_length = longest;
  args.q = q.bytes.data();
  args.q_head_stride = method.key.record.dim * elementBytes(q.type);
  args.q_token_stride = method.q_heads * args.q_head_stride;
  args.out = out.bytes.data();
  args.out_head_stride = dim * elementBytes(q.type);
  args.out_token_stride = method.q_heads * args.out_head_stride;
  args.lse = result.lse.data();
  args.lse_head_stride = 4;
  args.lse_token_stride = 4 * method.q_heads;
  args.pool = pool;
  args.head_stride = layout.stride;
  args.page_stride = method.kv_heads * layout.stride;
  args.page_tokens = page;
  args.block_table = tables.data();
  args.block_table_stride = 4 * pages;
  args.lengths = lengths.data();
  args.batch = batch;
  args.kv_heads = method.kv_heads;
  args.split_tokens = splitTokens;
  args.max_splits = std::max<int64_t>(1, (longest + splitTokens - 1) / splitTokens);
  args.scale = method.attention.scale;
  args.layer = layer;
  args.constants = constants;
  std::vector<float> query(batch * method.kv_heads * kernels.workspace.queryFloats(), NAN);
  std::vector<float> partial(
      batch * method.kv_heads * args.max_splits * kernels.workspace.partialFloats(), NAN);
  args.query = query.data();
  args.partial = partial.data();
  for (int64_t item = 0; item < batch * method.kv_heads; ++item)
    kernels.prepare(&args, item);
  for (int64_t item = batch * method.kv_heads * args.max_splits; item-- > 0;)
    kernels.decode(&args, item);
  for (int64_t item = 0; item < batch * method.kv_heads; ++item)
    kernels.merge(&args, item);
  result.out = out.values();
  return result;
}

} // namespace kvq::test

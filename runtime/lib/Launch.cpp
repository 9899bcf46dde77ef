// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/Launch.h"

#include "runtime/lib/Arguments.h"

#include <algorithm>

namespace kvq {
namespace {

/// What the checks work out of decode arguments.
struct DecodePlan {
  int64_t heads = 0; ///< KV heads of the call
  int64_t ratio = 1; ///< query heads of a KV head
  int64_t splitTokens = 0, splits = 0;
  int64_t pairs = 0, pieces = 0; ///< (sequence, KV head), and (sequence, KV head, split)
  int64_t queryBytes = 0;        ///< of the workspace's first part, a multiple of its alignment
  int64_t workspaceBytes = 0;
};

int64_t roundUp(int64_t x, int64_t m) { return (x + m - 1) / m * m; }

/// KV heads of a call, 0 meaning all of the model.
int64_t checkHeads(Arguments &check, const CacheMethod &method, int64_t first, int64_t heads) {
  check.range("first_head", first, 0, method.kv_heads - 1);
  const int64_t count = heads ? heads : method.kv_heads;
  if (heads)
    check.range("kv_heads", heads, 1, method.kv_heads);
  if (check.ok() && first + count > method.kv_heads)
    check.fail("first_head + kv_heads", "at most " + std::to_string(method.kv_heads) + " heads",
               std::to_string(first + count));
  return count;
}

/// Bytes of a record of `pageTokens` tokens; the layout is linear in blocks.
int64_t recordBytes(const RecordLayout &layout, int64_t pageTokens) {
  return pageTokens / layout.spec.block * layout.blockBytes;
}

template <typename Args>
void checkPool(Arguments &check, const kvq_library &library, const Args &args) {
  const int64_t step = library.layout.spec.block;
  check.range("page_tokens", args.page_tokens, step, INT32_MAX);
  check.multiple("page_tokens", args.page_tokens, step);
  check.pointer("pool", args.pool, KVQ_RECORD_ALIGN);
  const int64_t bytes = check.ok() ? recordBytes(library.layout, args.page_tokens) : 0;
  for (auto [name, stride] :
       {std::pair("page_stride", args.page_stride), std::pair("head_stride", args.head_stride)}) {
    check.range(name, stride, bytes, INT64_MAX / 2);
    check.multiple(name, stride, KVQ_RECORD_ALIGN);
  }
  check.range("layer", args.layer, 0, library.method.layers - 1);
}

/// Rows that are written must not lie on each other.
void checkApart(Arguments &check, const char *name, int64_t stride, int64_t bytes, int64_t count) {
  if (check.ok() && count > 1 && stride > -bytes && stride < bytes)
    check.fail(name, "at least " + std::to_string(bytes) + " bytes", std::to_string(stride));
}

void planDecode(Arguments &check, const kvq_library &library, const kvq_decode_args &args,
                DecodePlan &plan) {
  const CacheMethod &method = library.method;
  const int64_t step = library.layout.spec.block;
  plan.heads = checkHeads(check, method, args.first_head, args.kv_heads);
  plan.ratio = method.q_heads / method.kv_heads;
  check.range("batch", args.batch, 0, INT32_MAX);
  check.range("max_length", args.max_length, 0, INT32_MAX);
  check.range("split_tokens", args.split_tokens, 0, KVQ_MAX_SPLIT_TOKENS);
  check.multiple("split_tokens", args.split_tokens, step);
  plan.splitTokens = args.split_tokens ? args.split_tokens : roundUp(KVQ_SPLIT_TOKENS, step);
  if (!check.ok())
    return;
  plan.splits = std::max<int64_t>(1, (args.max_length + plan.splitTokens - 1) / plan.splitTokens);
  const kvq_cpu_kernel_info &info = library.code.info;
  int64_t query = 0, partial = 0;
  plan.pairs = args.batch * plan.heads; // below 2^47
  bool fits = !__builtin_mul_overflow(plan.pairs, plan.splits, &plan.pieces);
  fits = fits && !__builtin_mul_overflow(plan.pairs, 4 * info.query_floats, &query);
  fits = fits && !__builtin_mul_overflow(plan.pieces, 4 * info.partial_floats, &partial);
  fits = fits && query < INT64_MAX / 4 && partial < INT64_MAX / 4;
  if (!fits)
    return check.fail("batch, max_length", "a workspace of less than 2^61 bytes", "more");
  plan.queryBytes = roundUp(query, KVQ_WORKSPACE_ALIGN);
  plan.workspaceBytes = plan.queryBytes + partial;
}

void checkQueries(Arguments &check, const CacheMethod &method, const kvq_decode_args &args,
                  const DecodePlan &plan) {
  const int64_t heads = plan.heads * plan.ratio, element = elementBytes(method.attention.rows);
  const int64_t outBytes = element * method.value.record.dim;
  check.pointer("q", args.q, Arguments::kRowAlign);
  check.pointer("out", args.out, Arguments::kRowAlign);
  check.multiple("q_seq_stride", args.q_seq_stride, Arguments::kRowAlign);
  check.multiple("q_head_stride", args.q_head_stride, Arguments::kRowAlign);
  check.multiple("out_seq_stride", args.out_seq_stride, Arguments::kRowAlign);
  check.multiple("out_head_stride", args.out_head_stride, Arguments::kRowAlign);
  checkApart(check, "out_seq_stride", args.out_seq_stride, outBytes, args.batch);
  checkApart(check, "out_head_stride", args.out_head_stride, outBytes, heads);
  if (!args.lse)
    return;
  check.pointer("lse", args.lse, sizeof(float));
  check.multiple("lse_seq_stride", args.lse_seq_stride, sizeof(float));
  check.multiple("lse_head_stride", args.lse_head_stride, sizeof(float));
  checkApart(check, "lse_seq_stride", args.lse_seq_stride, sizeof(float), args.batch);
  checkApart(check, "lse_head_stride", args.lse_head_stride, sizeof(float), heads);
}

void checkLengths(Arguments &check, const kvq_decode_args &args) {
  check.pointer("lengths", args.lengths, sizeof(int32_t));
  check.range("block_table_columns", args.block_table_columns, 0, INT32_MAX);
  check.multiple("block_table_stride", args.block_table_stride, sizeof(int32_t));
  if (args.block_table_columns)
    check.pointer("block_table", args.block_table, sizeof(int32_t));
  if (args.block_table_stride)
    checkApart(check, "block_table_stride", args.block_table_stride, 4 * args.block_table_columns,
               args.batch);
  const int64_t columns = args.block_table_columns;
  for (int64_t i = 0; check.ok() && i < args.batch; ++i) {
    const int64_t length = args.lengths[i];
    if (length < 0 || length > args.max_length)
      check.fail("lengths[" + std::to_string(i) + "]",
                 "0 to max_length, " + std::to_string(args.max_length), std::to_string(length));
    else if ((length + args.page_tokens - 1) / args.page_tokens > columns)
      check.fail("lengths[" + std::to_string(i) + "]",
                 "at most the " + std::to_string(columns) + " pages of a row of the block table",
                 std::to_string(length) + " tokens in pages of " +
                     std::to_string(args.page_tokens));
  }
}

kvq_cpu_append_args kernelArguments(const kvq_library &library, const kvq_append_args &args,
                                    int64_t heads) {
  kvq_cpu_append_args out = {};
  out.k = args.k, out.v = args.v;
  out.k_token_stride = args.k_token_stride, out.k_head_stride = args.k_head_stride;
  out.v_token_stride = args.v_token_stride, out.v_head_stride = args.v_head_stride;
  out.slots = args.slots, out.pool = args.pool;
  out.page_stride = args.page_stride, out.head_stride = args.head_stride;
  out.page_tokens = args.page_tokens;
  out.tokens = args.tokens, out.kv_heads = heads;
  out.layer = args.layer, out.first_head = args.first_head;
  out.constants = library.view.constants.data;
  return out;
}

kvq_cpu_decode_args kernelArguments(const kvq_library &library, const kvq_decode_args &args,
                                    const DecodePlan &plan) {
  kvq_cpu_decode_args out = {};
  out.q = args.q, out.out = args.out, out.lse = args.lse;
  out.q_seq_stride = args.q_seq_stride, out.q_head_stride = args.q_head_stride;
  out.out_seq_stride = args.out_seq_stride, out.out_head_stride = args.out_head_stride;
  out.lse_seq_stride = args.lse_seq_stride, out.lse_head_stride = args.lse_head_stride;
  out.pool = args.pool;
  out.page_stride = args.page_stride, out.head_stride = args.head_stride;
  out.page_tokens = args.page_tokens;
  out.block_table = args.block_table, out.block_table_stride = args.block_table_stride;
  out.lengths = args.lengths, out.batch = args.batch, out.kv_heads = plan.heads;
  out.split_tokens = plan.splitTokens, out.max_splits = plan.splits;
  out.scale = args.scale != 0 ? args.scale : library.method.attention.scale;
  out.layer = args.layer, out.first_head = args.first_head;
  out.constants = library.view.constants.data;
  out.query = static_cast<float *>(args.workspace);
  out.partial = reinterpret_cast<float *>(static_cast<char *>(args.workspace) + plan.queryBytes);
  return out;
}

/// A kernel and its arguments, as the task of a parallel_for.
template <typename Fn, typename Args> struct Task {
  Fn fn;
  const Args *args;

  static void run(void *task, int64_t item) {
    const Task *self = static_cast<const Task *>(task);
    self->fn(self->args, item);
  }
};
using AppendTask = Task<kvq_cpu_append_fn, kvq_cpu_append_args>;
using DecodeTask = Task<kvq_cpu_decode_fn, kvq_cpu_decode_args>;

} // namespace

Status launchAppend(kvq_library &library, const kvq_append_args &args) {
  if (!library.codeStatus.ok())
    return library.codeStatus;
  if (library.layout.append != 1)
    return {KVQ_UNSUPPORTED, "the records are written " + std::to_string(library.layout.append) +
                                 " tokens at once, the kernels append one by one"};
  Arguments check;
  const int64_t heads = checkHeads(check, library.method, args.first_head, args.kv_heads);
  check.range("tokens", args.tokens, 0, INT32_MAX);
  if (!check.ok() || args.tokens == 0)
    return check.status;
  checkPool(check, library, args);
  check.pointer("k", args.k, Arguments::kRowAlign);
  check.pointer("v", args.v, Arguments::kRowAlign);
  check.pointer("slots", args.slots, sizeof(int64_t));
  check.multiple("k_token_stride", args.k_token_stride, Arguments::kRowAlign);
  check.multiple("k_head_stride", args.k_head_stride, Arguments::kRowAlign);
  check.multiple("v_token_stride", args.v_token_stride, Arguments::kRowAlign);
  check.multiple("v_head_stride", args.v_head_stride, Arguments::kRowAlign);
  if (!check.ok())
    return check.status;
  const kvq_cpu_append_args kernel = kernelArguments(library, args, heads);
  AppendTask task{library.code.append, &kernel};
  library.parallel(args.parallel_for, args.parallel_context, args.tokens * heads, AppendTask::run,
                   &task);
  return {};
}

Status workspaceSize(const kvq_library &library, const kvq_decode_args &args, size_t &bytes) {
  if (!library.codeStatus.ok())
    return library.codeStatus;
  Arguments check;
  DecodePlan plan;
  planDecode(check, library, args, plan);
  if (check.ok())
    bytes = size_t(plan.workspaceBytes);
  return check.status;
}

Status launchDecode(kvq_library &library, const kvq_decode_args &args) {
  if (!library.codeStatus.ok())
    return library.codeStatus;
  Arguments check;
  DecodePlan plan;
  planDecode(check, library, args, plan);
  if (!check.ok() || args.batch == 0)
    return check.status;
  checkPool(check, library, args);
  checkQueries(check, library.method, args, plan);
  checkLengths(check, args);
  check.finite("scale", args.scale);
  if (plan.workspaceBytes)
    check.pointer("workspace", args.workspace, KVQ_WORKSPACE_ALIGN);
  if (check.ok() && args.workspace_bytes < size_t(plan.workspaceBytes))
    check.fail("workspace_bytes", "at least " + std::to_string(plan.workspaceBytes),
               std::to_string(args.workspace_bytes));
  if (!check.ok())
    return check.status;
  const kvq_cpu_decode_args kernel = kernelArguments(library, args, plan);
  for (auto [fn, items] :
       {std::pair(library.code.prepare, plan.pairs), std::pair(library.code.decode, plan.pieces),
        std::pair(library.code.merge, plan.pairs)}) {
    DecodeTask task{fn, &kernel};
    library.parallel(args.parallel_for, args.parallel_context, items, DecodeTask::run, &task);
  }
  return {};
}

} // namespace kvq

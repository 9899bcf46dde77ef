// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/Checks.h"

namespace kvq {
namespace {

/// KV heads of a call, 0 meaning all of the model.
CallHeads checkHeads(Arguments &check, const CacheMethod &method, int64_t first, int64_t heads) {
  check.range("first_head", first, 0, method.kv_heads - 1);
  const int64_t count = heads ? heads : method.kv_heads;
  if (heads)
    check.range("kv_heads", heads, 1, method.kv_heads);
  if (check.ok() && first + count > method.kv_heads)
    check.fail("first_head + kv_heads", "at most " + std::to_string(method.kv_heads) + " heads",
               std::to_string(first + count));
  return {count, method.q_heads / method.kv_heads};
}

/// Bytes of a record of `pageTokens` tokens; the layout is linear in blocks.
int64_t recordBytes(const RecordLayout &layout, int64_t pageTokens) {
  return pageTokens / layout.spec.block * layout.blockBytes;
}

template <typename Args> void checkPool(Arguments &check, const Format &format, const Args &args) {
  const int64_t step = format.layout.spec.block;
  check.range("page_tokens", args.page_tokens, step, INT32_MAX);
  check.multiple("page_tokens", args.page_tokens, step);
  check.pointer("pool", args.pool, KVQ_RECORD_ALIGN);
  const int64_t bytes = check.ok() ? recordBytes(format.layout, args.page_tokens) : 0;
  for (auto [name, stride] :
       {std::pair("page_stride", args.page_stride), std::pair("head_stride", args.head_stride)}) {
    check.range(name, stride, bytes, INT64_MAX / 2);
    check.multiple(name, stride, KVQ_RECORD_ALIGN);
  }
}

/// Rows that are written must not lie on each other.
void checkApart(Arguments &check, const char *name, int64_t stride, int64_t bytes, int64_t count) {
  if (check.ok() && count > 1 && stride > -bytes && stride < bytes)
    check.fail(name, "at least " + std::to_string(bytes) + " bytes", std::to_string(stride));
}

void checkQueries(Arguments &check, const CacheMethod &method, const kvq_decode_args &args,
                  const CallHeads &call) {
  const int64_t heads = call.heads * call.ratio, element = elementBytes(method.attention.rows);
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

void checkTables(Arguments &check, const kvq_decode_args &args) {
  check.pointer("lengths", args.lengths, sizeof(int32_t));
  check.range("block_table_columns", args.block_table_columns, 0, INT32_MAX);
  check.multiple("block_table_stride", args.block_table_stride, sizeof(int32_t));
  if (args.block_table_columns)
    check.pointer("block_table", args.block_table, sizeof(int32_t));
  if (args.block_table_stride)
    checkApart(check, "block_table_stride", args.block_table_stride, 4 * args.block_table_columns,
               args.batch);
}

} // namespace

Status checkAppendStep(const Format &format) {
  if (format.layout.append == 1)
    return {};
  return {KVQ_UNSUPPORTED, "the records are written " + std::to_string(format.layout.append) +
                               " tokens at once, the kernels append one by one"};
}

CallHeads checkAppendSize(Arguments &check, const CacheMethod &method,
                          const kvq_append_args &args) {
  const CallHeads heads = checkHeads(check, method, args.first_head, args.kv_heads);
  check.range("tokens", args.tokens, 0, INT32_MAX);
  return heads;
}

void checkAppend(Arguments &check, const Format &format, const kvq_append_args &args) {
  checkPool(check, format, args);
  check.pointer("k", args.k, Arguments::kRowAlign);
  check.pointer("v", args.v, Arguments::kRowAlign);
  check.pointer("slots", args.slots, sizeof(int64_t));
  check.multiple("k_token_stride", args.k_token_stride, Arguments::kRowAlign);
  check.multiple("k_head_stride", args.k_head_stride, Arguments::kRowAlign);
  check.multiple("v_token_stride", args.v_token_stride, Arguments::kRowAlign);
  check.multiple("v_head_stride", args.v_head_stride, Arguments::kRowAlign);
}

CallHeads checkDecodeSize(Arguments &check, const CacheMethod &method,
                          const kvq_decode_args &args) {
  const CallHeads heads = checkHeads(check, method, args.first_head, args.kv_heads);
  check.range("batch", args.batch, 0, INT32_MAX);
  check.range("max_length", args.max_length, 0, INT32_MAX);
  return heads;
}

void checkDecode(Arguments &check, const Format &format, const kvq_decode_args &args,
                 const CallHeads &heads) {
  checkPool(check, format, args);
  checkQueries(check, format.method, args, heads);
  checkTables(check, args);
  check.finite("scale", args.scale);
  check.range("flags", args.flags, 0, KVQ_DECODE_PLANNED);
}

void checkWorkspace(Arguments &check, const kvq_decode_args &args, int64_t bytes) {
  if (bytes)
    check.pointer("workspace", args.workspace, KVQ_WORKSPACE_ALIGN);
  if (check.ok() && args.workspace_bytes < size_t(bytes))
    check.fail("workspace_bytes", "at least " + std::to_string(bytes),
               std::to_string(args.workspace_bytes));
}

kvq_cpu_append_args kernelArguments(const kvq_append_args &args, const CallHeads &heads,
                                    const void *constants) {
  kvq_cpu_append_args out = {};
  out.k = args.k, out.v = args.v;
  out.k_token_stride = args.k_token_stride, out.k_head_stride = args.k_head_stride;
  out.v_token_stride = args.v_token_stride, out.v_head_stride = args.v_head_stride;
  out.slots = args.slots, out.pool = args.pool;
  out.page_stride = args.page_stride, out.head_stride = args.head_stride;
  out.page_tokens = args.page_tokens;
  out.tokens = args.tokens, out.kv_heads = heads.heads;
  out.first_head = args.first_head;
  out.constants = constants;
  return out;
}

kvq_cpu_decode_args kernelArguments(const Format &format, const kvq_decode_args &args,
                                    const CallHeads &heads, const void *constants) {
  kvq_cpu_decode_args out = {};
  out.q = args.q, out.out = args.out, out.lse = args.lse;
  out.q_seq_stride = args.q_seq_stride, out.q_head_stride = args.q_head_stride;
  out.out_seq_stride = args.out_seq_stride, out.out_head_stride = args.out_head_stride;
  out.lse_seq_stride = args.lse_seq_stride, out.lse_head_stride = args.lse_head_stride;
  out.pool = args.pool;
  out.page_stride = args.page_stride, out.head_stride = args.head_stride;
  out.page_tokens = args.page_tokens;
  out.block_table = args.block_table, out.block_table_stride = args.block_table_stride;
  out.lengths = args.lengths, out.batch = args.batch, out.kv_heads = heads.heads;
  out.scale = args.scale != 0 ? args.scale : format.method.attention.scale;
  out.first_head = args.first_head;
  out.constants = constants;
  return out;
}

} // namespace kvq

/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Arguments of the CPU kernels in a library. Private to the compiler and the runtime of one format
 * version: the code generator takes field offsets from here with offsetof. A kernel handles one
 * work item; the runtime runs items through its parallel_for callback. All strides are in bytes. */
#ifndef KVQ_KERNEL_ABI_H
#define KVQ_KERNEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* append: item = token * kv_heads + head; quantizes one K row and one V row of one token and head
 * into its page. */
typedef struct kvq_cpu_append_args {
  const void *k; /* rows, element type of the key side; channels contiguous */
  const void *v;
  int64_t k_token_stride, k_head_stride;
  int64_t v_token_stride, v_head_stride;
  const int64_t *slots; /* [tokens]: page id * page_tokens + position in the page; negative: skip */
  void *pool;
  int64_t page_stride, head_stride;
  int64_t page_tokens; /* tokens of a page, a multiple of the block */
  int64_t tokens, kv_heads;
  int64_t layer, first_head; /* index of the constants: layer, first_head + head */
  const void *constants;     /* constants blob of the library, 64-byte aligned */
} kvq_cpu_append_args;

/* decode: three kernels in this order over the same arguments.
 *   prepare  item = sequence * kv_heads + head        query rows of the head -> `query`
 *   decode   item = (sequence * kv_heads + head) * max_splits + split   -> `partial`
 *   merge    item = sequence * kv_heads + head        partials -> out, lse
 * Query head j of the sequence reads KV head j / (q_heads / kv_heads). */
typedef struct kvq_cpu_decode_args {
  const void *q;
  int64_t q_seq_stride, q_head_stride;
  void *out;
  int64_t out_seq_stride, out_head_stride;
  float *lse; /* natural log-sum-exp of the scaled logits over the model's keys; may be null */
  int64_t lse_seq_stride, lse_head_stride;
  const void *pool;
  int64_t page_stride, head_stride;
  int64_t page_tokens;
  const int32_t *
      block_table; /* [batch][block_table_stride / 4]; ids past the last needed page are not read */
  int64_t block_table_stride;
  const int32_t *lengths; /* [batch] tokens in the cache; 0 gives zero output and lse -inf */
  int64_t batch, kv_heads;
  int64_t split_tokens; /* tokens of one split, a multiple of 16, the same for every sequence */
  int64_t max_splits;
  float scale;
  int64_t layer, first_head;
  const void *constants;
  float *query; /* workspace: see kvq_cpu_kernel_info */
  float *partial;
} kvq_cpu_decode_args;

typedef void (*kvq_cpu_append_fn)(const kvq_cpu_append_args *args, int64_t item);
typedef void (*kvq_cpu_decode_fn)(const kvq_cpu_decode_args *args, int64_t item);

/* Workspace of one decode call, in floats: `query` holds query_floats per (sequence, KV head),
 * `partial` holds partial_floats per (sequence, KV head, split). Stored in the library's kernel
 * table. */
typedef struct kvq_cpu_kernel_info {
  int64_t query_floats;
  int64_t partial_floats;
} kvq_cpu_kernel_info;

/* Symbols of a CPU shared object: kvq_append, kvq_prepare, kvq_decode, kvq_merge. */

/* ---- GPU kernels -------------------------------------------------------------------------------
 *
 * Symbols kvq_append, kvq_plan, kvq_prepare, kvq_decode of a module. Each takes one struct by
 * value: append kvq_cpu_append_args, the others kvq_gpu_decode_args. Pointers are device pointers.
 *
 *   append   one warp for each token * kv_heads + head; blocks of kvq_gpu_kernel_info::threads
 *   plan     one block. Reads `lengths`; writes `plan` and clears `counters`. Holds for all layers
 *            of a step
 *   prepare  one warp for each (sequence * kv_heads + head) * queries + query: the query in integer
 *            fragments -> `query`; zeros -> out and -inf -> lse where the length is 0
 *   decode   `teams` teams of `team_warps` warps. Of the first n = min(teams, chunks) team i takes
 *            chunks chunks * i / n up to chunks * (i + 1) / n of the list of all chunks, by
 *            (sequence, KV head, chunk)
 *
 * A unit is KVQ_GPU_UNIT_TOKENS tokens of a sequence and KV head, whatever the page; a chunk is
 * chunk_units units. A sequence and KV head that several teams share, or that has several chunks
 * longer than a unit, goes through `partial`; the last team to arrive merges. */

#define KVQ_GPU_UNIT_TOKENS 64

typedef struct kvq_gpu_decode_args {
  kvq_cpu_decode_args common; /* without split_tokens and max_splits */
  /* int32 [2 * (batch + 1) + 2 * (teams + 1)]: of one head the units before each sequence
   * [batch + 1] and the chunks before it [batch + 1]; then where each team begins, its sequence
   * [teams + 1] and its unit in the list of all units [teams + 1] */
  int32_t *plan;
  uint32_t *counters; /* [batch * kv_heads * queries]; every launch of decode leaves zeros */
  int64_t teams;
  /* units of a chunk: 1, and teams divide the list as evenly as they can; or more, the units of a
   * deterministic split: a result then does not depend on the rest of the batch. Then team_warps is
   * 1 */
  int64_t chunk_units;
  int64_t team_warps; /* 1, 2, 4, ... up to the warps of a block */
} kvq_gpu_decode_args;

/* Of each kernel of a GPU module, in the library's kernel table. Workspace of a decode, in floats:
 * `query` holds query_floats per (sequence, KV head); `partial` holds partial_floats per slot:
 * with chunk_units 1, teams + batch * kv_heads slots, else one per chunk of the list. */
typedef struct kvq_gpu_kernel_info {
  int64_t query_floats;
  int64_t partial_floats;
  int32_t threads;      /* of a block */
  int32_t shared_bytes; /* dynamic shared memory of a block */
} kvq_gpu_kernel_info;

#ifdef __cplusplus
}
#endif
#endif /* KVQ_KERNEL_ABI_H */

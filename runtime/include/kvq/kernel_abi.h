/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Arguments of the kernels in a library. Private to the compiler and the runtime of one format
 * version: the code generator takes field offsets from here with offsetof. All strides are in
 * bytes, all pointers of a GPU kernel are device pointers.
 *
 * A CPU kernel handles one work item; the runtime runs items through its parallel_for callback. */
#ifndef KVQ_KERNEL_ABI_H
#define KVQ_KERNEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Tokens ------------------------------------------------------------------------------------
 */

/* Kernels of single tokens and heads; item = token * kv_heads + head.
 *   append         rows k, v -> the record of slots[token]
 *   append_window  rows k, v, transformed but not quantized -> window row slots[token]
 *   dequantize     the record of slots[token] -> rows k, v */
typedef struct kvq_token_kernel_args {
  const void *k; /* rows, element type of the side's rows; channels contiguous. dequantize writes */
  const void *v;
  int64_t k_token_stride, k_head_stride;
  int64_t v_token_stride, v_head_stride;
  const void *slots;  /* [tokens]: page id * page_tokens + position in the page; negative: skip */
  int64_t slot_bytes; /* 4 or 8: int32 or int64 */
  int64_t reserved_slot; /* tokens of this slot are skipped too; -1: none */
  void *pool;            /* of records; append_window: of window rows */
  int64_t page_stride, head_stride;
  int64_t page_tokens; /* tokens of a page; of records a multiple of the block */
  int64_t tokens, kv_heads;
  int64_t layer, first_head; /* index of the constants: layer, first_head + head */
  const void *constants;     /* constants blob of the format, 64-byte aligned */
  int64_t stored;            /* dequantize, not 0: rows in the basis in which they are stored */
  int64_t f32;               /* dequantize, not 0: rows of f32 instead of the side's row type */
} kvq_token_kernel_args;

/* Where high-precision rows lie. A page of a head is [K: page_tokens x key_dim][V: page_tokens x
 * value_dim], rows without padding. Token p < sink is row p of the sink table's pages, token p >=
 * sink + quantized_lengths[i] is row (p - sink) mod capacity of the recent table's. */
typedef struct kvq_window_places {
  void *pool;
  int64_t page_stride, head_stride;
  int64_t page_tokens; /* a multiple of 16 */
  const int32_t *sink_table;
  int64_t sink_table_stride;
  const int32_t *recent_table;
  int64_t recent_table_stride;
  int64_t capacity;                 /* rows of a recent table, a multiple of page_tokens */
  const int32_t *quantized_lengths; /* [batch]: tokens in records */
} kvq_window_places;

/* demote: item = (sequence * most + i) * kv_heads + head: window row of token sink + from[seq] + i
 * -> its record, if it lies below sink + to[seq]. commit: item = sequence: to[seq] from committed
 * lengths (runtime.h, kvq_commit). */
typedef struct kvq_demote_kernel_args {
  kvq_window_places window; /* without quantized_lengths */
  const int32_t *from;      /* [batch] tokens in records before */
  int32_t *to;              /* [batch] and after */
  const int32_t *lengths;   /* [batch] committed lengths; commit only */
  void *pool;
  int64_t page_stride, head_stride;
  int64_t page_tokens;
  const int32_t *block_table;
  int64_t block_table_stride;
  const int32_t *page_indptr; /* as in kvq_decode_kernel_args */
  int64_t batch, kv_heads;
  int64_t most; /* tokens of a sequence in one call */
  int64_t step; /* commit: tokens that move together */
  int64_t layer, first_head;
  const void *constants;
} kvq_demote_kernel_args;

/* ---- Decode ------------------------------------------------------------------------------------
 *
 * Query rows. The q_len query tokens of a sequence and the `ratio` query heads of a KV head are
 * rows token * ratio + head, cut into `row_blocks` blocks of the kernel's row class. A segment is
 * (sequence * kv_heads + head) * row_blocks + block. Query token i of a sequence of length L has
 * position L - q_len + i and attends positions max(0, position - window + 1) up to its own.
 *
 * CPU kernels, in this order over the same arguments:
 *   prepare  item = segment                         query rows -> `query`
 *   decode   item = segment * max_splits + split    -> `partial`
 *   merge    item = segment                         partials -> out, lse */
typedef struct kvq_decode_kernel_args {
  const void *q; /* [query tokens][q heads][key_dim] */
  int64_t q_token_stride, q_head_stride;
  void *out;
  int64_t out_token_stride, out_head_stride;
  float *lse; /* natural log-sum-exp of the scaled logits over the model's keys; may be null */
  int64_t lse_token_stride, lse_head_stride;
  const int32_t *q_indptr; /* [batch + 1]: first query token of each sequence; null: uniform */
  int64_t q_length;        /* of every sequence; with q_indptr a bound */
  int64_t ratio;           /* query heads of a KV head */
  int64_t row_blocks;      /* ceil(q_length * ratio / row class) */
  const void *pool;
  int64_t page_stride, head_stride;
  int64_t page_tokens;
  /* Page ids of a sequence begin at block_table + page_indptr[seq], or, where that is null, at byte
   * seq * block_table_stride. Ids past the last needed page are not read. */
  const int32_t *block_table;
  int64_t block_table_stride;
  const int32_t *page_indptr;
  const int32_t *lengths; /* [batch] tokens in the cache; 0 gives zero output and lse -inf */
  int64_t max_length;     /* bound of lengths; a GPU's plan clamps to it */
  int64_t batch, kv_heads;
  int64_t split_tokens; /* CPU: tokens of one split, a multiple of 16 */
  int64_t max_splits;   /* CPU: of the records; with windows one more split holds their rows */
  int64_t window;       /* tokens that a query attends, INT32_MAX: all */
  const float *sinks;   /* [q heads of the call]: learned logits; null: none */
  float scale;
  int32_t zero; /* padding */
  int64_t layer, first_head;
  const void *constants;
  kvq_window_places windows; /* of formats with high-precision windows */
  float *query;              /* workspace: see the end of this file */
  float *partial;
} kvq_decode_kernel_args;

/* Symbols of a CPU shared object are those of a GPU module, without plan, and kvq_merge. */
typedef void (*kvq_cpu_token_fn)(const kvq_token_kernel_args *args, int64_t item);
typedef void (*kvq_cpu_demote_fn)(const kvq_demote_kernel_args *args, int64_t item);
typedef void (*kvq_cpu_decode_fn)(const kvq_decode_kernel_args *args, int64_t item);

/* ---- GPU kernels -------------------------------------------------------------------------------
 *
 * Symbols kvq_append, kvq_plan, kvq_prepare, kvq_decode of a module, and kvq_dequantize,
 * kvq_append_window, kvq_demote, kvq_commit. Each takes one struct by value: the token kernels
 * kvq_token_kernel_args, demote and commit kvq_demote_kernel_args, the others kvq_gpu_decode_args.
 *
 *   append, append_window, dequantize, demote
 *            one warp for each item; blocks of the kernel table's threads
 *   commit   one thread for each item
 *   plan     one block. Reads `lengths`; writes `plan` and clears `counters`. Holds for all layers
 *            of a step
 *   prepare  one warp for each segment * row class + row: the query in integer fragments ->
 *            `query`; zeros -> out and -inf -> lse where the row attends nothing
 *   decode   `teams` teams of `team_warps` warps. Of the first n = min(teams, chunks) team i takes
 *            chunks chunks * i / n up to chunks * (i + 1) / n of the list of all chunks, by
 *            (segment, chunk)
 *
 * A unit is KVQ_GPU_UNIT_TOKENS tokens of a segment, whatever the page; a chunk is chunk_units
 * units. A segment that several teams share, or that has several chunks longer than a unit, goes
 * through `partial`; the last team to arrive merges. */

#define KVQ_GPU_UNIT_TOKENS 64

/* Words of a plan. */
#define KVQ_GPU_PLAN_WORDS(batch, teams) (2 * ((batch) + 1) + 2 * ((teams) + 1) + 3 * (batch))

typedef struct kvq_gpu_decode_args {
  kvq_decode_kernel_args common; /* without split_tokens and max_splits */
  /* int32 [KVQ_GPU_PLAN_WORDS]: of one head and row block the units before each sequence [batch +
   * 1] and the chunks before it [batch + 1]; then where each team begins, its sequence [teams + 1]
   * and its unit in the list of all units [teams + 1]; then of each sequence the length, clamped to
   * 0 .. max_length, the first unit of its records that a query attends, and the tokens in records
   * [batch] each */
  int32_t *plan;
  uint32_t *counters; /* [segments * row class]; every launch of decode leaves zeros */
  uint32_t *faults;   /* plan sets bit 0 where a length was clamped */
  int64_t teams;
  /* units of a chunk: 1, and teams divide the list as evenly as they can; or more, the units of a
   * deterministic split: a result then does not depend on the rest of the batch. Then team_warps is
   * 1 */
  int64_t chunk_units;
  int64_t team_warps; /* 1, 2, 4, ... up to the warps of a block */
} kvq_gpu_decode_args;

/* Workspace of a decode, in floats, as the library's kernel table tells (WorkspaceFloats): `query`
 * holds query_floats per segment; `partial` holds partial_floats per (segment, split) of a CPU, per
 * slot of a GPU: with chunk_units 1, teams + segments slots, else one per chunk of the list. Row
 * class, threads of a block and dynamic shared memory stand there too. */

#ifdef __cplusplus
}
#endif
#endif /* KVQ_KERNEL_ABI_H */

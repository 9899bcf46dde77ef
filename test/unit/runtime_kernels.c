/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Kernels after kernel_abi.h that use every argument and compute next to nothing, to test the
 * loader and the launcher without the compiler. Rows are f32. The record of a page and head holds
 * two floats per token: the sums of its K and V row. */
#include "kvq/kernel_abi.h"

#include <math.h>
#include <string.h>

#ifndef KVQ_TEST_OFFSET
#define KVQ_TEST_OFFSET 0
#endif

enum { keyDim = 16, valueDim = 8, modelHeads = 2, ratio = 2 };

static float sum(const char *row, int count) {
  float total = 0;
  for (int i = 0; i < count; ++i) {
    float x;
    memcpy(&x, row + 4 * i, 4);
    total += x;
  }
  return total;
}

static float constantOf(const void *constants, int64_t layer, int64_t head) {
  return ((const float *)constants)[layer * modelHeads + head];
}

void kvq_append(const kvq_token_kernel_args *a, int64_t item) {
  const int64_t token = item / a->kv_heads, head = item % a->kv_heads;
  const int64_t slot =
      a->slot_bytes == 4 ? ((const int32_t *)a->slots)[token] : ((const int64_t *)a->slots)[token];
  if (slot < 0 || slot == a->reserved_slot)
    return;
  char *record = (char *)a->pool + slot / a->page_tokens * a->page_stride + head * a->head_stride;
  float *pair = (float *)record + 2 * (slot % a->page_tokens);
  pair[0] = sum((const char *)a->k + token * a->k_token_stride + head * a->k_head_stride, keyDim) -
            constantOf(a->constants, a->layer, a->first_head + head);
  pair[1] = sum((const char *)a->v + token * a->v_token_stride + head * a->v_head_stride, valueDim);
}

void kvq_prepare(const kvq_decode_kernel_args *a, int64_t item) {
  const int64_t seq = item / a->kv_heads, head = item % a->kv_heads;
  for (int q = 0; q < ratio; ++q) {
    const char *row =
        (const char *)a->q + seq * a->q_token_stride + (head * ratio + q) * a->q_head_stride;
    a->query[item * ratio + q] = a->scale * sum(row, keyDim);
  }
}

void kvq_decode(const kvq_decode_kernel_args *a, int64_t item) {
  const int64_t split = item % a->max_splits, pair = item / a->max_splits;
  const int64_t seq = pair / a->kv_heads, head = pair % a->kv_heads;
  int64_t begin = split * a->split_tokens, end = begin + a->split_tokens;
  float *partial = a->partial + 2 * item;
  partial[0] = partial[1] = 0;
  end = end < a->lengths[seq] ? end : a->lengths[seq];
  for (int64_t t = begin; t < end; ++t) {
    const int32_t *row =
        a->page_indptr
            ? a->block_table + a->page_indptr[seq]
            : (const int32_t *)((const char *)a->block_table + seq * a->block_table_stride);
    const char *record =
        (const char *)a->pool + row[t / a->page_tokens] * a->page_stride + head * a->head_stride;
    const float *pairOfToken = (const float *)record + 2 * (t % a->page_tokens);
    partial[0] += pairOfToken[0];
    partial[1] += pairOfToken[1];
  }
}

void kvq_merge(const kvq_decode_kernel_args *a, int64_t item) {
  const int64_t seq = item / a->kv_heads, head = item % a->kv_heads;
  float keys = 0, values = 0;
  for (int64_t split = 0; split < a->max_splits; ++split) {
    keys += a->partial[2 * (item * a->max_splits + split)];
    values += a->partial[2 * (item * a->max_splits + split) + 1];
  }
  for (int q = 0; q < ratio; ++q) {
    const int64_t row = head * ratio + q;
    float *out = (float *)((char *)a->out + seq * a->out_token_stride + row * a->out_head_stride);
    for (int d = 0; d < valueDim; ++d)
      out[d] = a->lengths[seq]
                   ? a->query[item * ratio + q] * keys + values + (float)d + (float)KVQ_TEST_OFFSET
                   : 0;
    if (a->lse)
      *(float *)((char *)a->lse + seq * a->lse_token_stride + row * a->lse_head_stride) =
          a->lengths[seq] ? keys : -INFINITY;
  }
}

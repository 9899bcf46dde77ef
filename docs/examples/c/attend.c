/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * One sequence, one layer: open a kernel library, append tokens to a cache, attend over it on the
 * CPU. C99 and libkvq alone. `attend model.kvqlib` prints the first channels of the result. All
 * tokens have the value -1 1 1 -1 1 1 ..., so a library of int2.mlir gives just that. */
#define _POSIX_C_SOURCE 200112L /* posix_memalign */
#include <kvq/runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 100, ELEMENT = 2 /* bytes of a bfloat16 */ };

static void check(kvq_status status, const char *call) {
  if (status == KVQ_OK)
    return;
  fprintf(stderr, "attend: %s: %s: %s\n", call, kvq_status_name(status), kvq_last_error());
  exit(1);
}

static void *allocate(int64_t bytes, size_t alignment) {
  void *data = NULL;
  if (posix_memalign(&data, alignment, (size_t)bytes) != 0) {
    fprintf(stderr, "attend: out of memory: %lld bytes\n", (long long)bytes);
    exit(1);
  }
  return memset(data, 0, (size_t)bytes);
}

/* A bfloat16 is the upper half of a float; the numbers of this example need no rounding. */
static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static float from_bf16(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: attend LIBRARY\n");
    return 2;
  }

  /* The kernels in the file are machine code: allow it for files that you trust like a program. */
  const kvq_open_options options = {.size = sizeof options, .flags = KVQ_ALLOW_HOST_CODE};
  kvq_library *library = NULL;
  check(kvq_open(argv[1], &options, &library), "kvq_open");

  /* Geometry, of the first layer that is quantized. */
  kvq_model model = {.size = sizeof model};
  check(kvq_query_model(library, &model), "kvq_query_model");
  int32_t layer = -1, format = -1;
  while (format < 0 && ++layer < model.layers)
    check(kvq_query_layer(library, layer, &format), "kvq_query_layer");
  kvq_geometry shape = {.size = sizeof shape};
  check(kvq_query(library, layer, &shape), "kvq_query");
  kvq_page_geometry page = {.size = sizeof page};
  check(kvq_query_page(library, layer, 0, &page), "kvq_query_page");
  printf("kvq %s: %d layers, %d KV heads, %.2f bits per element\n", kvq_version(), model.layers,
         shape.kv_heads, page.bits_per_element);
  if (shape.key_rows != KVQ_BF16 || shape.value_rows != KVQ_BF16 || shape.query_rows != KVQ_BF16 ||
      shape.window_rows != 0) {
    fprintf(stderr, "attend: expected a library for rows of bf16, without windows\n");
    return 1;
  }

  /* The cache is the caller's memory. A real pool has the pages of many sequences; this one has
   * those of one, and its page table names them from the last to the first. */
  const int64_t pages = (TOKENS + shape.page_tokens - 1) / shape.page_tokens;
  const kvq_pool pool = {.data = allocate(pages * page.page_bytes, KVQ_RECORD_ALIGN),
                         .page_stride = page.page_bytes,
                         .head_stride = page.head_stride,
                         .page_tokens = shape.page_tokens};
  int32_t *table = allocate(pages * (int64_t)sizeof *table, 16);
  for (int64_t i = 0; i < pages; ++i)
    table[i] = (int32_t)(pages - 1 - i);
  int64_t slots[TOKENS];
  for (int64_t token = 0; token < TOKENS; ++token)
    slots[token] =
        (int64_t)table[token / shape.page_tokens] * shape.page_tokens + token % shape.page_tokens;

  /* Append: rows [token][KV head][channel]. */
  const int64_t key_row = shape.key_dim * ELEMENT, value_row = shape.value_dim * ELEMENT;
  uint16_t *keys = allocate(TOKENS * shape.kv_heads * key_row, 16);
  uint16_t *values = allocate(TOKENS * shape.kv_heads * value_row, 16);
  for (int64_t i = 0; i < (int64_t)TOKENS * shape.kv_heads * shape.key_dim; ++i)
    keys[i] = to_bf16((float)(i % 7) - 3);
  for (int64_t i = 0; i < (int64_t)TOKENS * shape.kv_heads * shape.value_dim; ++i)
    values[i] = to_bf16(i % shape.value_dim % 3 ? 1.0f : -1.0f);
  const kvq_token_args append = {.size = sizeof append,
                                 .k = keys,
                                 .v = values,
                                 .k_token_stride = shape.kv_heads * key_row,
                                 .k_head_stride = key_row,
                                 .v_token_stride = shape.kv_heads * value_row,
                                 .v_head_stride = value_row,
                                 .slots = slots,
                                 .tokens = TOKENS,
                                 .pool = pool,
                                 .place = {.layer = layer}};
  check(kvq_append(library, &append), "kvq_append");

  /* Decode: one query token, rows [query head][channel]. */
  uint16_t *queries = allocate(shape.q_heads * key_row, 16);
  uint16_t *out = allocate(shape.q_heads * value_row, 16);
  for (int64_t i = 0; i < (int64_t)shape.q_heads * shape.key_dim; ++i)
    queries[i] = to_bf16((float)(i % 5) - 2);
  const int32_t length = TOKENS;
  kvq_decode_args decode = {.size = sizeof decode,
                            .q = queries,
                            .q_token_stride = shape.q_heads * key_row,
                            .q_head_stride = key_row,
                            .out = out,
                            .out_token_stride = shape.q_heads * value_row,
                            .out_head_stride = value_row,
                            .pool = pool,
                            .table = {.ids = table, .columns = pages},
                            .lengths = &length,
                            .batch = 1,
                            .max_length = TOKENS,
                            .place = {.layer = layer}};
  check(kvq_workspace_size(library, &decode, &decode.workspace_bytes), "kvq_workspace_size");
  decode.workspace = allocate((int64_t)decode.workspace_bytes, KVQ_WORKSPACE_ALIGN);
  check(kvq_workspace_init(library, decode.workspace, decode.workspace_bytes, NULL),
        "kvq_workspace_init");
  check(kvq_decode(library, &decode), "kvq_decode");
  printf("attention over %d tokens: %.2f %.2f %.2f %.2f ...\n", TOKENS, from_bf16(out[0]),
         from_bf16(out[1]), from_bf16(out[2]), from_bf16(out[3]));

  kvq_close(library);
  void *const memory[] = {pool.data, table, keys, values, queries, out, decode.workspace};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; ++i)
    free(memory[i]);
  return 0;
}

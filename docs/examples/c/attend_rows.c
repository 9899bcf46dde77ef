/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A sequence from files, on the CPU or, compiled with -DATTEND_CUDA and linked with -lcudart, on a
 * CUDA device: append all tokens, then attend with the last query tokens, each over the tokens up
 * to its own. C99.
 *
 *     attend_rows LIBRARY LAYER KEYS VALUES QUERIES OUT LSE CACHE
 *
 * KEYS [tokens][KV heads][key dim], VALUES [tokens][KV heads][value dim], QUERIES [queries][query
 * heads][key dim]: raw rows of the library's element types. Writes OUT [queries][query heads][value
 * dim], LSE [queries][query heads] float, and CACHE, the bytes of the pages. */
#define _POSIX_C_SOURCE 200112L /* posix_memalign */
#include <kvq/runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what, const char *why) {
  fprintf(stderr, "attend_rows: %s: %s\n", what, why);
  exit(1);
}

static void check(kvq_status status, const char *call) {
  if (status != KVQ_OK)
    fail(call, kvq_last_error());
}

/* Memory where the kernels run. Calls of kvq only launch: what reads results waits for the stream.
 */
#ifdef ATTEND_CUDA
#include <cuda_runtime_api.h>

static const kvq_open_options options = {.size = sizeof options, .target = KVQ_TARGET_CUDA};
static cudaStream_t stream;

static void check_cuda(cudaError_t error) {
  if (error != cudaSuccess)
    fail("CUDA", cudaGetErrorString(error));
}

static void start(void) { check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }

static void *allocate(size_t bytes) {
  void *data = NULL;
  check_cuda(cudaMalloc(&data, bytes));
  check_cuda(cudaMemsetAsync(data, 0xff, bytes, stream));
  return data;
}

static void to_device(void *to, const void *from, size_t bytes) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
  check_cuda(cudaStreamSynchronize(stream));
}

static void to_host(void *to, const void *from, size_t bytes) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
  check_cuda(cudaStreamSynchronize(stream));
}

static void release(void *data) { check_cuda(cudaFree(data)); }
#else
/* The kernels in the file are machine code: allow it for files that you trust like a program. */
static const kvq_open_options options = {.size = sizeof options, .flags = KVQ_ALLOW_HOST_CODE};
static void *const stream = NULL;

static void start(void) {}

static void *allocate(size_t bytes) {
  void *data = NULL;
  if (posix_memalign(&data, KVQ_RECORD_ALIGN, bytes) != 0)
    fail("memory", "out of memory");
  return memset(data, 0xff, bytes);
}

static void to_device(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
static void to_host(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
static void release(void *data) { free(data); }
#endif

/* Rows of a file, where the kernels run. */
typedef struct {
  void *data;
  int64_t count, token_stride, head_stride;
} rows;

static rows read_rows(const char *path, int64_t heads, int64_t dim, kvq_element element) {
  rows out = {.head_stride = dim * (element == KVQ_F32 ? 4 : 2)};
  out.token_stride = heads * out.head_stride;
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0)
    fail(path, "cannot be read");
  const long bytes = ftell(file);
  if (bytes <= 0 || bytes % out.token_stride != 0)
    fail(path, "expected whole rows of the library's heads and dim");
  rewind(file);
  void *host = malloc((size_t)bytes);
  if (!host || fread(host, 1, (size_t)bytes, file) != (size_t)bytes)
    fail(path, "cannot be read");
  fclose(file);
  out.count = bytes / out.token_stride;
  out.data = allocate((size_t)bytes);
  to_device(out.data, host, (size_t)bytes);
  free(host);
  return out;
}

static void write_back(const char *path, const void *data, size_t bytes) {
  void *host = malloc(bytes);
  if (!host)
    fail("memory", "out of memory");
  to_host(host, data, bytes);
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(host, 1, bytes, file) != bytes || fclose(file) != 0)
    fail(path, "cannot be written");
  free(host);
}

static void *host_array(int64_t count, size_t element) {
  void *data = malloc((size_t)count * element);
  if (!data)
    fail("memory", "out of memory");
  return data;
}

/* An array on the host, copied to where the kernels run. */
static void *moved(void *host, size_t bytes) {
  void *data = allocate(bytes);
  to_device(data, host, bytes);
  free(host);
  return data;
}

/* Pages from the last to the first, all of one sequence. */
static int32_t *make_table(int64_t pages) {
  int32_t *table = host_array(pages, sizeof *table);
  for (int64_t i = 0; i < pages; ++i)
    table[i] = (int32_t)(pages - 1 - i);
  return table;
}

static int64_t *make_slots(const int32_t *table, int64_t tokens, int64_t page_tokens) {
  int64_t *slots = host_array(tokens, sizeof *slots);
  for (int64_t t = 0; t < tokens; ++t)
    slots[t] = table[t / page_tokens] * page_tokens + t % page_tokens;
  return slots;
}

/* Query j attends the tokens up to its own: as a batch, each with a length of its own. */
static int32_t *make_lengths(int64_t tokens, int64_t queries) {
  int32_t *lengths = host_array(queries, sizeof *lengths);
  for (int64_t j = 0; j < queries; ++j)
    lengths[j] = (int32_t)(tokens - queries + 1 + j);
  return lengths;
}

int main(int argc, char **argv) {
  if (argc != 9) {
    fprintf(stderr, "usage: attend_rows LIBRARY LAYER KEYS VALUES QUERIES OUT LSE CACHE\n");
    return 2;
  }
  start();
  kvq_library *library = NULL;
  check(kvq_open(argv[1], &options, &library), "kvq_open");
  const int64_t layer = atoll(argv[2]);
  kvq_geometry shape = {.size = sizeof shape};
  check(kvq_query(library, layer, &shape), "kvq_query");
  kvq_page_geometry page = {.size = sizeof page};
  check(kvq_query_page(library, layer, 0, &page), "kvq_query_page");
  if (shape.window_rows != 0)
    fail(argv[1], "expected a library without windows");

  const rows k = read_rows(argv[3], shape.kv_heads, shape.key_dim, shape.key_rows);
  const rows v = read_rows(argv[4], shape.kv_heads, shape.value_dim, shape.value_rows);
  const rows q = read_rows(argv[5], shape.q_heads, shape.key_dim, shape.query_rows);
  if (k.count != v.count || q.count > k.count)
    fail("rows", "expected as many keys as values, and no more queries");

  const int64_t pages = (k.count + shape.page_tokens - 1) / shape.page_tokens;
  const size_t pool_bytes = (size_t)(pages * page.page_bytes);
  const kvq_pool pool = {allocate(pool_bytes), page.page_bytes, page.head_stride,
                         shape.page_tokens};
  int32_t *host_table = make_table(pages);
  void *slots =
      moved(make_slots(host_table, k.count, shape.page_tokens), (size_t)k.count * sizeof(int64_t));
  void *table = moved(host_table, (size_t)pages * sizeof(int32_t));
  const kvq_execution execution = {.stream = stream};
  const kvq_token_args append = {.size = sizeof append,
                                 .k = k.data,
                                 .v = v.data,
                                 .k_token_stride = k.token_stride,
                                 .k_head_stride = k.head_stride,
                                 .v_token_stride = v.token_stride,
                                 .v_head_stride = v.head_stride,
                                 .slots = slots,
                                 .tokens = k.count,
                                 .pool = pool,
                                 .place = {.layer = layer},
                                 .execution = execution};
  check(kvq_append(library, &append), "kvq_append");

  const int64_t out_head = shape.value_dim * (q.head_stride / shape.key_dim);
  const size_t out_bytes = (size_t)(q.count * shape.q_heads * out_head);
  const size_t lse_bytes = (size_t)(q.count * shape.q_heads) * sizeof(float);
  kvq_decode_args decode = {
      .size = sizeof decode,
      .q = q.data,
      .q_token_stride = q.token_stride,
      .q_head_stride = q.head_stride,
      .out = allocate(out_bytes),
      .out_token_stride = shape.q_heads * out_head,
      .out_head_stride = out_head,
      .lse = allocate(lse_bytes),
      .lse_token_stride = shape.q_heads * (int64_t)sizeof(float),
      .lse_head_stride = sizeof(float),
      .pool = pool,
      .table = {.ids = table, .columns = pages}, /* one row for all */
      .lengths = moved(make_lengths(k.count, q.count), (size_t)q.count * sizeof(int32_t)),
      .batch = q.count,
      .max_length = k.count,
      .place = {.layer = layer},
      .execution = execution};
  check(kvq_workspace_size(library, &decode, &decode.workspace_bytes), "kvq_workspace_size");
  decode.workspace = allocate(decode.workspace_bytes);
  check(kvq_workspace_init(library, decode.workspace, decode.workspace_bytes, &execution),
        "kvq_workspace_init");
  check(kvq_decode(library, &decode), "kvq_decode");

  write_back(argv[6], decode.out, out_bytes);
  write_back(argv[7], decode.lse, lse_bytes);
  write_back(argv[8], pool.data, pool_bytes);
  kvq_close(library);
  void *const memory[] = {k.data, v.data,     q.data,     pool.data,        slots,
                          table,  decode.out, decode.lse, decode.workspace, (void *)decode.lengths};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; ++i)
    release(memory[i]);
  return 0;
}

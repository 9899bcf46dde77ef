/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The runtime interface of kvq, version 0: load a compiled library, append tokens to a quantized
 * key/value cache, and attend over it. Version 0 is unstable: it may change with any release.
 *
 * The cache. A cache is a pool of pages that the caller owns. A page holds page_tokens tokens; in
 * it each KV head has one record, a contiguous range of bytes with the codes and the parameters of
 * the keys and values of these tokens. The record of page p and KV head h begins at pool + p *
 * page_stride + h * head_stride. Any order of pages and heads is expressed by the two strides.
 * Records need no initialization. Everything but lengths is written by kvq_append: a page may be
 * moved, copied or shared by copying bytes.
 *
 * Sizes. All strides are in bytes and 64 bits. Pointers and strides of rows (k, v, q, out) are
 * multiples of 16; of the pool, multiples of KVQ_RECORD_ALIGN; of the workspace,
 * KVQ_WORKSPACE_ALIGN (pointer only). Channels of a row are contiguous. Element types of rows are
 * those of kvq_geometry.
 *
 * Structs begin with their size in bytes, set by the caller to sizeof: a later version appends
 * members, and reads those that an older caller does not have as zero. Members that this version
 * does not know must be zero. Set unused members to zero (= {sizeof(x)} does).
 *
 * Errors. Functions return a status. If it is not KVQ_OK, kvq_last_error() holds one line that says
 * what was expected and what was got, and no output was written, except where noted.
 *
 * Threads. After kvq_open, a library may be used by several threads at once, each with its own
 * workspace. kvq_close must not run beside other calls on the same library. */
#ifndef KVQ_RUNTIME_H
#define KVQ_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVQ_API __attribute__((visibility("default")))

#define KVQ_INTERFACE_VERSION 0
#define KVQ_RECORD_ALIGN 128
#define KVQ_WORKSPACE_ALIGN 64
/* Tokens of a split where the caller gives none; see kvq_decode_args. */
#define KVQ_SPLIT_TOKENS 1024
/* The most that a caller may ask for: fp32 sums over longer splits leave the error bound of 1e-5.
 */
#define KVQ_MAX_SPLIT_TOKENS 2048

typedef int32_t kvq_status;
enum {
  KVQ_OK = 0,
  KVQ_INVALID_ARGUMENT = 1, /* an argument breaks a rule of this header */
  KVQ_IO_ERROR = 2,         /* a file cannot be read */
  KVQ_INVALID_FILE = 3,     /* not a library, or damaged */
  KVQ_OTHER_VERSION = 4,    /* a library of another format version */
  KVQ_UNSUPPORTED = 5,      /* the library, or this machine, cannot do what was asked */
  KVQ_OUT_OF_MEMORY = 6,
  KVQ_INTERNAL_ERROR = 7, /* a defect of kvq */
  KVQ_DEVICE_ERROR = 8    /* the device's driver refused a call, or reports what went wrong on the
                           * device before; output may have been written */
};

/* Element types of rows; 0 is no type. */
typedef int32_t kvq_element;
enum { KVQ_F16 = 1, KVQ_BF16 = 2, KVQ_F32 = 3 };

/* A library in memory. */
typedef struct kvq_library kvq_library;

/* Name of a status, "KVQ_OK"; "unknown status" for another number. Never null. */
KVQ_API const char *kvq_status_name(kvq_status status);

/* Message of the last call of this thread that did not return KVQ_OK; "" before the first. Valid
 * until the thread's next call of kvq. Never null. */
KVQ_API const char *kvq_last_error(void);

/* Version of this runtime, "0.1.0". */
KVQ_API const char *kvq_version(void);

/* ---- Open and close ----------------------------------------------------------------------------
 */

/* Flag of kvq_open_options: load the machine code for the host CPU that the library holds. Give it
 * only for files that you trust like a program. Without it the library can be queried, not run. */
#define KVQ_ALLOW_HOST_CODE 1u

/* Where the kernels of a library run. */
typedef int32_t kvq_target;
enum {
  KVQ_TARGET_CPU = 0,
  /* The CUDA device that is current when kvq_open is called. Pointers of append and decode
   * arguments are then device pointers, except the structs themselves. Needs the driver, and no
   * host code: KVQ_ALLOW_HOST_CODE is not asked for. If no device is current, it is device 0. The
   * module and the constants are loaded by the first kvq_workspace_size, kvq_append or kvq_decode;
   * only that call allocates device memory, so it must not be captured in a graph. The context of
   * the device must live until kvq_close, and need not be current in later calls. */
  KVQ_TARGET_CUDA = 1
};

typedef struct kvq_open_options {
  size_t size;
  uint32_t flags; /* KVQ_ALLOW_HOST_CODE */
  int32_t
      threads; /* of the library's own pool, the calling thread included; 0: one per processor.
                * The pool starts with the first call that needs it. It does not survive fork. */
  kvq_target target; /* CUDA: UNSUPPORTED where the machine or the library does not have it. CPU:
                      * a library without CPU kernels opens, and can be queried */
} kvq_open_options;

/* Reads a library file. `options` may be null: no flags. The file is read whole and its digests are
 * checked; later changes of the file have no effect. Digests find damage, not malice.
 * Errors: IO_ERROR, INVALID_FILE, OTHER_VERSION (the message names both versions), OUT_OF_MEMORY. A
 * library whose code needs an instruction set that this CPU lacks opens, and can be queried. */
KVQ_API kvq_status kvq_open(const char *path, const kvq_open_options *options,
                            kvq_library **library);

/* The same from memory; the bytes are copied and need no alignment. */
KVQ_API kvq_status kvq_open_memory(const void *data, size_t bytes, const kvq_open_options *options,
                                   kvq_library **library);

/* Frees a library; null is allowed. Pages and workspaces are the caller's. */
KVQ_API void kvq_close(kvq_library *library);

/* ---- What a library is -------------------------------------------------------------------------
 */

typedef struct kvq_geometry {
  size_t size;
  int32_t q_heads, kv_heads; /* of the model; query head j reads KV head j / (q_heads / kv_heads) */
  int32_t layers;            /* of the constants; 1 also where all layers share them */
  int32_t key_dim, value_dim;
  int32_t key_bits, value_bits;     /* of a code */
  kvq_element key_rows, value_rows; /* element types of the rows that kvq_append takes */
  kvq_element query_rows;           /* element type of q and out of kvq_decode */
  int32_t page_tokens;              /* the library's default */
  int32_t page_step;                /* a page is a multiple of this many tokens */
  int32_t append_step;              /* tokens that are appended together; 1: any number */
  int32_t query_rotated;  /* not 0: q must arrive in the key's basis (W_Q holds the rotation) */
  int32_t output_rotated; /* not 0: out is in the value's basis (W_O holds the inverse) */
  float scale;            /* multiplies q.k before the softmax */
} kvq_geometry;

/* Fills `geometry`, of which the caller sets `size`. */
KVQ_API kvq_status kvq_query(const kvq_library *library, kvq_geometry *geometry);

typedef struct kvq_page_geometry {
  size_t size;
  int64_t record_bytes; /* of one page and one KV head, without padding behind it */
  int64_t head_stride; /* smallest head_stride: record_bytes up to a multiple of KVQ_RECORD_ALIGN */
  int64_t page_bytes;  /* of all KV heads of the model, at that head_stride */
  double
      bits_per_element; /* of K and V together, at that head_stride: codes, parameters, padding */
} kvq_page_geometry;

/* Bytes of a page of `page_tokens` tokens; 0 is the library's default. INVALID_ARGUMENT if it is
 * not a multiple of page_step. */
KVQ_API kvq_status kvq_query_page(const kvq_library *library, int64_t page_tokens,
                                  kvq_page_geometry *geometry);

/* JSON text of the method of the cache, and of the manifest. UTF-8, valid until kvq_close; null if
 * `library` is. */
KVQ_API const char *kvq_method_text(const kvq_library *library);
KVQ_API const char *kvq_manifest_text(const kvq_library *library);

/* What a caller is about to do; a member that is 0 is not asked for. */
typedef struct kvq_use {
  size_t size;
  int32_t q_heads, kv_heads; /* of the model */
  int32_t layers;            /* calls use layers 0 .. layers - 1 */
  int32_t key_dim, value_dim;
  kvq_element key_rows, value_rows, query_rows;
  int32_t page_tokens;
  int32_t query_length; /* query tokens of a sequence in one call of kvq_decode */
} kvq_use;

/* KVQ_OK if the library can do this here. Otherwise KVQ_UNSUPPORTED, and kvq_last_error() holds all
 * reasons, one a line. `use` may be null: can the code of the library run here at all? */
KVQ_API kvq_status kvq_supports(const kvq_library *library, const kvq_use *use);

/* ---- Work --------------------------------------------------------------------------------------
 */

/* A piece of work: runs item `item` of `task`. */
typedef void (*kvq_item_fn)(void *task, int64_t item);

/* Runs fn(task, i) exactly once for each i of 0 .. items - 1, in any order, on any threads, and
 * returns when all have returned. What the caller wrote before is visible to all items, and what
 * they wrote is visible when it returns. Items do not block, and call nothing of kvq. */
typedef void (*kvq_parallel_for)(void *context, int64_t items, kvq_item_fn fn, void *task);

/* Tokens to append. Rows: key_rows [tokens][kv_heads][key_dim], after RoPE, and value_rows
 * [tokens][kv_heads][value_dim]. Results do not depend on how tokens are divided into calls. */
typedef struct kvq_append_args {
  size_t size;
  const void *k, *v;
  int64_t k_token_stride, k_head_stride;
  int64_t v_token_stride, v_head_stride;
  const int64_t *slots; /* [tokens]: page id * page_tokens + position in the page; negative: this
                         * token is skipped. Slots of a call are distinct. A page id must lie in the
                         * pool: the runtime does not know the pool's size and cannot check it. */
  int64_t tokens;
  void *pool;
  int64_t page_stride, head_stride;
  int64_t page_tokens;
  int64_t layer;                 /* 0 .. layers - 1, selects the constants */
  int64_t first_head, kv_heads;  /* KV heads of the model that the rows and the pool hold: a rank of
                                  * tensor parallelism has a part of them. kv_heads 0: all */
  kvq_parallel_for parallel_for; /* null: the library's own pool */
  void *parallel_context;
  void *stream; /* KVQ_TARGET_CUDA: the CUstream to launch in; null: the default stream */
} kvq_append_args;

/* Quantizes tokens into their pages. A row value that is not finite is stored as 0 (NaN) or as the
 * largest finite number of its sign. Calls that write different slots may run at the same time. */
KVQ_API kvq_status kvq_append(kvq_library *library, const kvq_append_args *args);

/* One query token per sequence: q [batch][q heads][key_dim], out [batch][q heads][value_dim], both
 * query_rows, where q heads = kv_heads * (model's q_heads / kv_heads). The query attends tokens
 * 0 .. lengths[i] - 1 of its sequence; append its own token first. */
typedef struct kvq_decode_args {
  size_t size;
  const void *q;
  int64_t q_seq_stride, q_head_stride;
  void *out;
  int64_t out_seq_stride, out_head_stride;
  float *lse; /* [batch][q heads]: natural log-sum-exp of the scaled logits; may be null */
  int64_t lse_seq_stride, lse_head_stride; /* multiples of 4 */
  const void *pool;
  int64_t page_stride, head_stride;
  int64_t page_tokens;
  const int32_t *block_table; /* [batch][block_table_columns]: page ids; token t lies in page
                               * block_table[i][t / page_tokens]. Ids of pages that the length does
                               * not reach are not read. Ids in use must lie in the pool: the
                               * runtime does not check them. */
  int64_t block_table_stride; /* multiple of 4; 0: all sequences share one row */
  int64_t block_table_columns;
  const int32_t *lengths; /* [batch]: tokens in the cache, 0 .. max_length. A sequence of length 0
                           * gives zeros and a log-sum-exp of -infinity */
  int64_t batch;
  int64_t max_length;   /* bound of lengths; sizes the workspace, does not change results */
  int64_t split_tokens; /* tokens that one work item attends, a multiple of page_step, at most
                         * KVQ_MAX_SPLIT_TOKENS; 0: KVQ_SPLIT_TOKENS rounded up to one. The bits of
                         * a row depend on it, and on nothing else of the batch */
  int64_t layer;
  int64_t first_head, kv_heads; /* as in kvq_append_args */
  float scale;                  /* 0: the library's own */
  void *workspace;              /* contents do not matter */
  size_t workspace_bytes;       /* at least kvq_workspace_size */
  kvq_parallel_for parallel_for;
  void *parallel_context;
  /* KVQ_TARGET_CUDA only. The call launches and returns: no allocation, no synchronization, and
   * lengths and block_table are read by the device, unchecked. split_tokens 0: sequences are
   * divided by the load of the batch, so the last bits of a row may depend on it; else a multiple
   * of 64, and they do not. What the block table can hold, up to max_length, is less than 2^31
   * units of 64 tokens over all sequences and KV heads. */
  void *stream;   /* CUstream */
  uint32_t flags; /* KVQ_DECODE_PLANNED */
} kvq_decode_args;

/* Flag of kvq_decode_args: the workspace holds the plan of a call with the same library, lengths,
 * batch, max_length, split_tokens and kv_heads, as it does in every layer of a step but the first;
 * only layer, rows, pool, block table and scale may differ. */
#define KVQ_DECODE_PLANNED 1u

/* Workspace of a kvq_decode with these args. Only batch, max_length, split_tokens, first_head and
 * kv_heads are read. A larger batch or max_length never needs less. */
KVQ_API kvq_status kvq_workspace_size(const kvq_library *library, const kvq_decode_args *args,
                                      size_t *bytes);

/* Attention over the cache. Writes every element of out and, if given, of lse. */
KVQ_API kvq_status kvq_decode(kvq_library *library, const kvq_decode_args *args);

#ifdef __cplusplus
}
#endif
#endif /* KVQ_RUNTIME_H */

/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The runtime interface of kvq, version 1: load a compiled library, append tokens to a quantized
 * key/value cache, and attend over it.
 *
 * Layers. A library serves a model. Each layer of the model has a format (a quantization method and
 * a record layout), or none: the caller keeps the keys and values of such a layer itself. Calls
 * name the layer.
 *
 * The cache. A cache is a pool of pages that the caller owns. A page holds page_tokens tokens; in
 * it each KV head has one record, a contiguous range of bytes with the codes and the parameters of
 * the keys and values of these tokens. The record of page p and KV head h begins at pool + p *
 * page_stride + h * head_stride. Any order of pages and heads is expressed by the two strides.
 * Records need no initialization. Everything but lengths is written by kvq_append: a page may be
 * moved, copied or shared by copying bytes.
 *
 * Windows. A format may keep the first `sink` and at least the last `recent` tokens of a sequence
 * in high precision (kvq_geometry). Such rows live in a second pool, rotated and centred but not
 * quantized: the rows of page p and KV head h, keys [page_tokens][key_dim] and then values
 * [page_tokens][value_dim], begin at pool + p * page_stride + h * head_stride. Token t of a
 * sequence with Q quantized tokens is
 *     t < sink                row t of the sequence's sink pages
 *     sink <= t < sink + Q    token t - sink of its record pages
 *     t >= sink + Q           row (t - sink) mod capacity of its recent pages, a ring
 * kvq_append_window writes rows, kvq_commit says how far Q may move, kvq_demote quantizes rows of
 * the ring into records. Tokens of a draft that may be rejected are simply not yet committed.
 *
 * Sizes. All strides are in bytes and 64 bits. Pointers and strides of rows (k, v, q, out) are
 * multiples of 16; of pools, multiples of KVQ_RECORD_ALIGN; of the workspace, KVQ_WORKSPACE_ALIGN
 * (pointer only). Channels of a row are contiguous. Element types of rows are those of
 * kvq_geometry.
 *
 * Structs begin with their size in bytes, set by the caller to sizeof: a later version appends
 * members, and reads those that an older caller does not have as zero. Members that this version
 * does not know must be zero. Set unused members to zero (= {sizeof(x)} does).
 *
 * Errors. Functions return a status. If it is not KVQ_OK, kvq_last_error() holds what was expected
 * and what was got, and no output was written, except where noted.
 *
 * Threads. After kvq_open, a library may be used by several threads at once, each with its own
 * workspace. kvq_close must not run beside other calls on the same library.
 *
 * Hot calls. kvq_plan, kvq_append, kvq_append_window, kvq_commit, kvq_demote, kvq_dequantize and
 * kvq_decode allocate nothing. With KVQ_TARGET_CUDA they launch into the caller's stream and
 * return: they do not synchronize and read no device memory, so they can be captured in a graph,
 * after the code has been loaded (kvq_load). */
#ifndef KVQ_RUNTIME_H
#define KVQ_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVQ_API __attribute__((visibility("default")))

#define KVQ_INTERFACE_VERSION 1
#define KVQ_RECORD_ALIGN 128
#define KVQ_WORKSPACE_ALIGN 64
/* Tokens of a split where the caller gives none; see kvq_decode_args. */
#define KVQ_SPLIT_TOKENS 1024
/* The most that a caller may ask for on a CPU: fp32 sums over longer splits leave the error bound
 * of 1e-5. */
#define KVQ_MAX_SPLIT_TOKENS 2048
/* The most query tokens of a sequence in one call of kvq_decode. */
#define KVQ_MAX_Q_LENGTH 16

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
  KVQ_DEVICE_ERROR = 8,   /* the device's driver refused a call, or reports what went wrong on the
                           * device before; output may have been written */
  KVQ_OTHER_FORMAT = 9    /* pages of another record layout or another method */
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

/* KVQ_INTERFACE_VERSION of this runtime. */
KVQ_API int32_t kvq_interface_version(void);

/* ---- Open and close ----------------------------------------------------------------------------
 */

/* Flag of kvq_open_options: load the machine code for the host CPU that the library holds. Give it
 * only for files that you trust like a program. Without it the library can be queried, not run. */
#define KVQ_ALLOW_HOST_CODE 1u

/* Where the kernels of a library run. */
typedef int32_t kvq_target;
enum {
  KVQ_TARGET_CPU = 0,
  /* The CUDA device that is current when kvq_open is called. Pointers of arguments are then device
   * pointers, except the structs themselves and what is said to be host memory. Needs the driver,
   * and no host code: KVQ_ALLOW_HOST_CODE is not asked for. If no device is current, it is device
   * 0. Modules and constants of a format are loaded by kvq_load, or by the first call that needs
   * them; only these calls allocate device memory, and must not be captured in a graph. The context
   * of the device must live until kvq_close, and need not be current in later calls. */
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

/* Loads code and constants of the layer's format, or of all formats for layer -1, if that has not
 * happened. What calls load by themselves, done before a graph is captured. */
KVQ_API kvq_status kvq_load(kvq_library *library, int64_t layer);

/* Frees a library; null is allowed. Pages and workspaces are the caller's. */
KVQ_API void kvq_close(kvq_library *library);

/* ---- What a library is -------------------------------------------------------------------------
 */

typedef struct kvq_model {
  size_t size;
  int32_t layers;  /* of the model: calls take layers 0 .. layers - 1 */
  int32_t formats; /* how many different ones they have */
} kvq_model;

KVQ_API kvq_status kvq_query_model(const kvq_library *library, kvq_model *model);

/* Writes the number of the layer's format, 0 .. formats - 1, or -1 for a layer that the library
 * does not quantize. */
KVQ_API kvq_status kvq_query_layer(const kvq_library *library, int64_t layer, int32_t *format);

typedef struct kvq_geometry {
  size_t size;
  int32_t format;            /* number of the format */
  int32_t q_heads, kv_heads; /* of the model; query head j reads KV head j / (q_heads / kv_heads) */
  int32_t key_dim, value_dim;
  int32_t key_bits, value_bits;     /* of a code */
  kvq_element key_rows, value_rows; /* element types of the rows that kvq_append takes */
  kvq_element query_rows;           /* element type of q and out of kvq_decode */
  int32_t page_tokens;              /* the library's default */
  int32_t page_step;                /* a page is a multiple of this many tokens */
  int32_t append_step;              /* tokens that are appended together; 1: any number */
  int32_t query_rotated;   /* not 0: q must arrive in the key's basis (W_Q holds the rotation) */
  int32_t output_rotated;  /* not 0: out is in the value's basis (W_O holds the inverse) */
  float scale;             /* multiplies q.k before the softmax */
  float softcap;           /* c: a logit x becomes c tanh(x / c); 0: none */
  int32_t window;          /* tokens that a query attends, its own included; 0: all */
  int32_t sinks;           /* not 0: the library holds a learned sink logit for each query head */
  int32_t sink, recent;    /* high-precision tokens, see above; 0: none */
  kvq_element window_rows; /* element type of high-precision rows; 0: there are none */
} kvq_geometry;

/* Fills `geometry`, of which the caller sets `size`, for one layer. UNSUPPORTED if the layer is not
 * quantized. */
KVQ_API kvq_status kvq_query(const kvq_library *library, int64_t layer, kvq_geometry *geometry);

typedef struct kvq_page_geometry {
  size_t size;
  int64_t record_bytes; /* of one page and one KV head, without padding behind it */
  int64_t head_stride; /* smallest head_stride: record_bytes up to a multiple of KVQ_RECORD_ALIGN */
  int64_t page_bytes;  /* of all KV heads of the model, at that head_stride */
  double
      bits_per_element;  /* of K and V together, at that head_stride: codes, parameters, padding */
  int64_t window_bytes;  /* of a page of high-precision rows of one KV head; 0: there are none */
  uint8_t record_id[32]; /* SHA-256 of the canonical text of the record: pages with the same bytes
                          * for the same codes have the same */
  uint8_t method_id[32]; /* SHA-256 of the method and its constants: pages with the same codes for
                          * the same rows have the same */
} kvq_page_geometry;

/* Bytes of a page of `page_tokens` tokens; 0 is the library's default. INVALID_ARGUMENT if it is
 * not a multiple of page_step. */
KVQ_API kvq_status kvq_query_page(const kvq_library *library, int64_t layer, int64_t page_tokens,
                                  kvq_page_geometry *geometry);

/* JSON text of the method of a layer, and of the manifest. UTF-8, valid until kvq_close; null if
 * there is none. */
KVQ_API const char *kvq_method_text(const kvq_library *library, int64_t layer);
KVQ_API const char *kvq_manifest_text(const kvq_library *library);

/* What a caller is about to do; a member that is 0 is not asked for. */
typedef struct kvq_use {
  size_t size;
  int32_t q_heads, kv_heads; /* of the model */
  int32_t layers;            /* of the model */
  int32_t key_dim, value_dim;
  kvq_element key_rows, value_rows, query_rows;
  int32_t page_tokens;
  int32_t q_length;     /* query tokens of a sequence in one call of kvq_decode */
  int32_t sink, recent; /* high-precision tokens; -1: there must be none */
  float softcap;        /* -1: there must be none */
  uint32_t flags;       /* KVQ_USE_ */
} kvq_use;

#define KVQ_USE_CAPTURE 1u    /* calls are captured in a graph */
#define KVQ_USE_DEMOTE 2u     /* windows are written and demoted */
#define KVQ_USE_DEQUANTIZE 4u /* kvq_dequantize */

/* Reasons against a use. The numbers never change their meaning. */
typedef int32_t kvq_reason_code;
enum {
  KVQ_REASON_NO_CODE = 1, /* no kernels that run here; the text names what the library has */
  KVQ_REASON_LAYERS = 2,  /* another number of layers */
  KVQ_REASON_HEADS = 3,   /* KV heads, or query heads that are no multiple of them */
  KVQ_REASON_HEAD_DIM = 4,
  KVQ_REASON_ELEMENT = 5, /* element type of rows */
  KVQ_REASON_PAGE = 6,    /* tokens of a page */
  KVQ_REASON_Q_LENGTH = 7,
  KVQ_REASON_WINDOWS = 8, /* high-precision windows */
  KVQ_REASON_SOFTCAP = 9,
  KVQ_REASON_APPEND_STEP = 10, /* records are not written token by token */
  KVQ_REASON_CAPTURE = 11,
  KVQ_REASON_KERNEL = 12 /* a kernel that the use needs is not in the library */
};

typedef struct kvq_reason {
  kvq_reason_code code;
  int32_t layer;  /* first layer that it concerns; -1: all */
  char text[248]; /* one line: what was expected and what was got */
} kvq_reason;

/* KVQ_OK if the library can do this here, in every layer that it quantizes. Otherwise
 * KVQ_UNSUPPORTED: all reasons stand in kvq_last_error(), one a line, and the first `capacity` of
 * them in `reasons`; `count`, if not null, is how many there are. `use` may be null: can the code
 * of the library run here at all? `reasons` may be null if `capacity` is 0. */
KVQ_API kvq_status kvq_supports(const kvq_library *library, const kvq_use *use, kvq_reason *reasons,
                                int32_t capacity, int32_t *count);

/* ---- Work --------------------------------------------------------------------------------------
 */

/* A piece of work: runs item `item` of `task`. */
typedef void (*kvq_item_fn)(void *task, int64_t item);

/* Runs fn(task, i) exactly once for each i of 0 .. items - 1, in any order, on any threads, and
 * returns when all have returned. What the caller wrote before is visible to all items, and what
 * they wrote is visible when it returns. Items do not block, and call nothing of kvq. */
typedef void (*kvq_parallel_for)(void *context, int64_t items, kvq_item_fn fn, void *task);

/* How a call runs; at the end of every argument struct. */
typedef struct kvq_execution {
  kvq_parallel_for parallel_for; /* KVQ_TARGET_CPU; null: the library's own pool */
  void *parallel_context;
  void *stream; /* KVQ_TARGET_CUDA: the CUstream to launch in; null: the default stream */
} kvq_execution;

/* A part of the model: a rank of tensor parallelism has a part of the KV heads, and its rows and
 * pools hold just these. */
typedef struct kvq_place {
  int64_t layer;                /* of the model */
  int64_t first_head, kv_heads; /* KV heads of the model; kv_heads 0: all */
} kvq_place;

/* Pages of records, or of high-precision rows. */
typedef struct kvq_pool {
  void *data; /* kvq_decode and kvq_export only read it */
  int64_t page_stride, head_stride;
  int64_t page_tokens;
} kvq_pool;

/* Flags of kvq_token_args. */
#define KVQ_SLOTS_32 1u      /* slots are int32_t instead of int64_t */
#define KVQ_RESERVED_SLOT 2u /* tokens of `reserved_slot` are skipped */
/* kvq_dequantize: rows in the basis in which they are stored, neither rotated back nor with means
 * added. */
#define KVQ_STORED_BASIS 4u
#define KVQ_ROWS_F32 8u /* kvq_dequantize: rows of f32 */

/* Tokens and their rows: keys [tokens][kv_heads][key_dim], after RoPE, key_rows, and values
 * [tokens][kv_heads][value_dim], value_rows. */
typedef struct kvq_token_args {
  size_t size;
  void *k, *v; /* kvq_append and kvq_append_window only read them */
  int64_t k_token_stride, k_head_stride;
  int64_t v_token_stride, v_head_stride;
  const void *slots; /* [tokens]: page id * page_tokens + position in the page; negative: this
                      * token is skipped. Slots of a call are distinct, but for skipped ones. A page
                      * id must lie in the pool: the runtime does not know the pool's size and
                      * cannot check it. */
  int64_t tokens;
  int64_t reserved_slot; /* with KVQ_RESERVED_SLOT */
  kvq_pool pool;
  kvq_place place;
  uint32_t flags; /* KVQ_SLOTS_32 ... */
  kvq_execution execution;
} kvq_token_args;

/* Quantizes tokens into records. Results do not depend on how tokens are divided into calls. A row
 * value that is not finite is stored as 0 (NaN) or as the largest finite number of its sign. Calls
 * that write different slots may run at the same time. */
KVQ_API kvq_status kvq_append(kvq_library *library, const kvq_token_args *args);

/* Writes tokens as high-precision rows; `pool` is that of windows. Values that are not finite are
 * stored as kvq_append takes them. UNSUPPORTED if the format has no windows. */
KVQ_API kvq_status kvq_append_window(kvq_library *library, const kvq_token_args *args);

/* Writes the rows that records stand for: in the model's own basis, with means, or with
 * KVQ_STORED_BASIS as they are stored. Skipped tokens keep their rows. */
KVQ_API kvq_status kvq_dequantize(kvq_library *library, const kvq_token_args *args);

/* Page ids of sequences, in one of two forms. Token t of a sequence lies in the page with the id
 * number t / page_tokens of its row; ids past its last token are not read. Ids in use must lie in
 * the pool: the runtime does not check them. */
typedef struct kvq_page_table {
  const int32_t *ids;
  /* Where a row begins: null, at byte i * row_stride; else at ids + indptr[i], [batch + 1]. */
  const int32_t *indptr;
  int64_t row_stride; /* multiple of 4; 0: all sequences share one row */
  int64_t columns;    /* ids of a row; with indptr an upper bound of them */
} kvq_page_table;

/* High-precision rows of a batch. */
typedef struct kvq_windows {
  kvq_pool pool;
  kvq_page_table sink;   /* columns * page_tokens >= the format's sink. Without indptr */
  kvq_page_table recent; /* columns * page_tokens is the capacity of the ring: at least the format's
                          * recent, plus the step of kvq_commit, plus tokens that are not committed.
                          * Without indptr */
  const int32_t *quantized_lengths; /* [batch] */
} kvq_windows;

typedef struct kvq_commit_args {
  size_t size;
  const int32_t *lengths; /* [batch]: committed tokens of each sequence, its sink included */
  const int32_t *from;    /* [batch]: quantized tokens before */
  int32_t *to;            /* [batch]: quantized tokens after; may be `from` where no layer still has
                           * to move from it */
  int64_t batch;
  int64_t step; /* tokens that move together: 1, 8, or a page */
  int64_t layer;
  kvq_execution execution;
} kvq_commit_args;

/* to[i] = max(from[i], (lengths[i] - sink - recent) rounded down to a multiple of step): how many
 * tokens leave the window, the same for all layers of a format. */
KVQ_API kvq_status kvq_commit(kvq_library *library, const kvq_commit_args *args);

typedef struct kvq_demote_args {
  size_t size;
  kvq_windows windows; /* quantized_lengths: before the move */
  const int32_t *to;   /* [batch]: quantized tokens after it */
  kvq_pool pool;       /* of records */
  kvq_page_table table;
  int64_t batch;
  int64_t most; /* bound of to[i] - quantized_lengths[i] */
  kvq_place place;
  kvq_execution execution;
} kvq_demote_args;

/* Quantizes the oldest rows of the recent ring into records; the rows stay as they are. From the
 * stored rows, the codes are those that kvq_append makes of the same tokens if the rotated row has
 * the window's element type. */
KVQ_API kvq_status kvq_demote(kvq_library *library, const kvq_demote_args *args);

/* Flag of kvq_decode_args: the workspace holds the plan of a kvq_plan, or of a kvq_decode without
 * this flag, with the same library and format, lengths, batch, max_length, q_length, q_indptr,
 * q_heads, kv_heads, window, split_tokens and windows' quantized_lengths, as it does in every layer
 * of a step but the first; only layer, rows, pools, tables, sinks and scale may differ. */
#define KVQ_DECODE_PLANNED 1u

/* Attention of query tokens over the cache: q [query tokens][q heads][key_dim], out [query
 * tokens][q heads][value_dim], both query_rows. Query token j of sequence i stands for token
 * lengths[i] - q_length + j of the sequence and attends it and what lies before it: append before
 * decode. */
typedef struct kvq_decode_args {
  size_t size;
  const void *q;
  int64_t q_token_stride, q_head_stride;
  void *out;
  int64_t out_token_stride, out_head_stride;
  float *lse; /* [query tokens][q heads]: natural log-sum-exp of the scaled logits, learned sinks
               * included; may be null */
  int64_t lse_token_stride, lse_head_stride; /* multiples of 4 */
  int64_t q_length;        /* query tokens of each sequence, 1 .. KVQ_MAX_Q_LENGTH; 0: 1 */
  const int32_t *q_indptr; /* null, or [batch + 1]: first query token of each sequence; q_length is
                            * then the bound of a sequence's, which may have none */
  int64_t q_heads;         /* query heads of the call, a multiple of its KV heads; 0: the model's
                            * number for each KV head */
  kvq_pool pool;
  kvq_page_table table;
  const int32_t *lengths; /* [batch]: tokens in the cache, 0 .. max_length. A query that attends
                           * nothing gives zeros and a log-sum-exp of -infinity */
  int64_t batch;
  int64_t max_length;   /* bound of lengths; sizes the workspace, does not change results */
  kvq_windows windows;  /* of a format with windows; else zeros */
  int64_t window;       /* tokens that a query attends, its own included; 0: the library's own; -1:
                         * all */
  const float *sinks;   /* [q heads]: learned sink logits; null: the library's own, if any */
  float scale;          /* 0: the library's own */
  int64_t split_tokens; /* CPU: tokens that one work item attends, a multiple of page_step, at most
                         * KVQ_MAX_SPLIT_TOKENS; 0: KVQ_SPLIT_TOKENS rounded up to one. The bits of
                         * a row depend on it, and on nothing else of the batch.
                         * CUDA: 0: sequences are divided by the load of the batch, so the last bits
                         * of a row may depend on it; else a multiple of 64, and they do not. They
                         * may still depend on q_length and q_heads: rows of a KV head that a kernel
                         * takes at once share the moments at which their sums are moved. What the
                         * page table can hold, up to max_length, is less than 2^31 units of 64
                         * tokens over all sequences, KV heads and blocks of query rows */
  kvq_place place;
  void *workspace;        /* kvq_workspace_init, once */
  size_t workspace_bytes; /* at least kvq_workspace_size */
  uint32_t flags;         /* KVQ_DECODE_PLANNED */
  kvq_execution execution;
} kvq_decode_args;

/* Workspace of a kvq_decode with these args. Only batch, max_length, q_length, q_heads,
 * split_tokens and place are read. A larger batch, max_length or q_length never needs less, so one
 * workspace of the largest call serves all; one per stream. */
KVQ_API kvq_status kvq_workspace_size(const kvq_library *library, const kvq_decode_args *args,
                                      size_t *bytes);

/* Makes `bytes` bytes at `workspace` a workspace, and clears its faults. Any later call may use it;
 * after a fault of the device it is made anew. */
KVQ_API kvq_status kvq_workspace_init(kvq_library *library, void *workspace, size_t bytes,
                                      const kvq_execution *execution);

/* The first word of a workspace (uint32_t, device memory with CUDA) gathers what kernels met and
 * could not refuse. */
#define KVQ_FAULT_LENGTH 1u /* a length beyond max_length or the page table; it was clamped */

/* Makes the plan of a step in the workspace: what all layers of a format share. Reads what
 * kvq_decode would, but for rows, pools and page ids, which may be null. */
KVQ_API kvq_status kvq_plan(kvq_library *library, const kvq_decode_args *args);

/* Attention over the cache. Writes every element of out and, if given, of lse, of all query
 * tokens. */
KVQ_API kvq_status kvq_decode(kvq_library *library, const kvq_decode_args *args);

/* ---- Moving pages ------------------------------------------------------------------------------
 */

/* What stands beside exported bytes. A plain struct of fixed layout: store or send it as it is. */
typedef struct kvq_page_header {
  char magic[8];     /* "KVQPAGE" */
  uint32_t version;  /* 1 */
  uint32_t kv_heads; /* of the bytes */
  uint64_t pages;    /* of the bytes */
  uint64_t page_tokens;
  uint64_t record_bytes; /* of a page and head; the bytes are [pages][kv_heads][record_bytes] */
  uint8_t record_id[32], method_id[32]; /* kvq_page_geometry */
  uint32_t layer, first_head;           /* where they came from */
} kvq_page_header;

typedef struct kvq_move_args {
  size_t size;
  kvq_pool pool;
  const int32_t *pages; /* host memory, [count]: page ids */
  int64_t count;
  void *data;   /* kvq_import only reads it; device or host memory. The copies run in the stream */
  size_t bytes; /* of data, at least count * kv_heads * record_bytes */
  kvq_place place;
  kvq_execution execution;
} kvq_move_args;

/* Copies pages out of a pool, and tells what they are. */
KVQ_API kvq_status kvq_export(kvq_library *library, const kvq_move_args *args,
                              kvq_page_header *header);

/* Copies pages into a pool. OTHER_FORMAT, with both digests named, if `header` is not of this
 * layer's record and method; INVALID_ARGUMENT if it is not of these args. */
KVQ_API kvq_status kvq_import(kvq_library *library, const kvq_move_args *args,
                              const kvq_page_header *header);

#ifdef __cplusplus
}
#endif
#endif /* KVQ_RUNTIME_H */

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/Checks.h"

#include <algorithm>

namespace kvq {
namespace {

/// Names in messages begin with the member that holds them.
class Scope {
public:
  Scope(Arguments &check, const char *name) : check(check), before(check.scope) {
    check.scope = name;
  }
  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;
  ~Scope() { check.scope = before; }

private:
  Arguments &check;
  const char *before;
};

void checkPool(Arguments &check, const char *name, const kvq_pool &pool, int64_t step,
               int64_t blockBytes) {
  const Scope scope(check, name);
  check.range("page_tokens", pool.page_tokens, step, INT32_MAX);
  check.multiple("page_tokens", pool.page_tokens, step);
  check.pointer("data", pool.data, KVQ_RECORD_ALIGN);
  const int64_t bytes = check.ok() ? pool.page_tokens / step * blockBytes : 0;
  for (auto [member, stride] :
       {std::pair("page_stride", pool.page_stride), std::pair("head_stride", pool.head_stride)}) {
    check.range(member, stride, bytes, INT64_MAX / 2);
    check.multiple(member, stride, KVQ_RECORD_ALIGN);
  }
}

void checkRecordPool(Arguments &check, const Call &call, const kvq_pool &pool) {
  const RecordLayout &layout = call.format->layout;
  checkPool(check, "pool.", pool, layout.spec.block, layout.blockBytes);
}

/// Rows of windows are read 16 at a time.
constexpr int64_t kWindowStep = 16;

void checkWindowPool(Arguments &check, const char *name, const Call &call, const kvq_pool &pool) {
  checkPool(check, name, pool, kWindowStep, kWindowStep * call.format->method.windowRowBytes());
}

/// Rows that are written must not lie on each other.
void checkApart(Arguments &check, const char *name, int64_t stride, int64_t bytes, int64_t count) {
  if (check.ok() && count > 1 && stride > -bytes && stride < bytes)
    check.fail(name, "at least " + std::to_string(bytes) + " bytes", std::to_string(stride));
}

void checkTable(Arguments &check, const char *name, const kvq_page_table &table, int64_t batch,
                bool ragged) {
  const Scope scope(check, name);
  check.range("columns", table.columns, 0, INT32_MAX);
  if (table.columns)
    check.pointer("ids", table.ids, sizeof(int32_t));
  if (table.indptr) {
    if (!ragged)
      check.fail("indptr", "null", "a pointer");
    check.pointer("indptr", table.indptr, sizeof(int32_t));
    return;
  }
  check.multiple("row_stride", table.row_stride, sizeof(int32_t));
  if (table.row_stride)
    checkApart(check, "row_stride", table.row_stride, 4 * table.columns, batch);
}

/// Tables and lengths of windows; `moves`: those of a demotion, which does not read the sink.
void checkWindows(Arguments &check, const Call &call, const kvq_windows &windows, int64_t batch,
                  bool moves) {
  const CacheMethod &method = call.format->method;
  checkWindowPool(check, "windows.pool.", call, windows.pool);
  checkTable(check, "windows.recent.", windows.recent, batch, /*ragged=*/false);
  const Scope scope(check, "windows.");
  check.pointer("quantized_lengths", windows.quantized_lengths, sizeof(int32_t));
  if (moves)
    return;
  if (check.ok() && windows.recent.columns * windows.pool.page_tokens < method.recent)
    check.fail("recent", "pages for the " + std::to_string(method.recent) + " recent tokens",
               std::to_string(windows.recent.columns) + " of " +
                   std::to_string(windows.pool.page_tokens));
  if (!method.sink)
    return;
  checkTable(check, "windows.sink.", windows.sink, batch, /*ragged=*/false);
  if (check.ok() && windows.sink.columns * windows.pool.page_tokens < method.sink)
    check.fail("sink", "pages for the " + std::to_string(method.sink) + " tokens of the sink",
               std::to_string(windows.sink.columns) + " of " +
                   std::to_string(windows.pool.page_tokens));
}

void checkNoWindows(Arguments &check, const kvq_windows &windows) {
  if (windows.pool.data || windows.quantized_lengths || windows.sink.ids || windows.recent.ids)
    check.fail("windows", "zeros, because the format has no windows", "pointers");
}

void checkQueries(Arguments &check, const DecodeShape &shape, const kvq_decode_args &args) {
  const CacheMethod &method = shape.call.format->method;
  const int64_t heads = shape.call.heads * shape.ratio, tokens = args.batch * shape.qLength;
  const int64_t outBytes = elementBytes(method.attention.rows) * method.value.record.dim;
  check.pointer("q", args.q, Arguments::kRowAlign);
  check.pointer("out", args.out, Arguments::kRowAlign);
  check.multiple("q_token_stride", args.q_token_stride, Arguments::kRowAlign);
  check.multiple("q_head_stride", args.q_head_stride, Arguments::kRowAlign);
  check.multiple("out_token_stride", args.out_token_stride, Arguments::kRowAlign);
  check.multiple("out_head_stride", args.out_head_stride, Arguments::kRowAlign);
  checkApart(check, "out_token_stride", args.out_token_stride, outBytes, tokens);
  checkApart(check, "out_head_stride", args.out_head_stride, outBytes, heads);
  if (args.lse) {
    check.pointer("lse", args.lse, sizeof(float));
    check.multiple("lse_token_stride", args.lse_token_stride, sizeof(float));
    check.multiple("lse_head_stride", args.lse_head_stride, sizeof(float));
    checkApart(check, "lse_token_stride", args.lse_token_stride, sizeof(float), tokens);
    checkApart(check, "lse_head_stride", args.lse_head_stride, sizeof(float), heads);
  }
  if (args.sinks)
    check.pointer("sinks", args.sinks, sizeof(float));
  else if (method.attention.sinks >= 0 && shape.ratio != method.q_heads / method.kv_heads)
    check.fail("q_heads", "those of the model, of which the library holds learned sinks",
               std::to_string(args.q_heads));
}

kvq_window_places placesOf(const kvq_windows &windows) {
  kvq_window_places out = {};
  out.pool = windows.pool.data;
  out.page_stride = windows.pool.page_stride, out.head_stride = windows.pool.head_stride;
  out.page_tokens = windows.pool.page_tokens;
  out.sink_table = windows.sink.ids, out.sink_table_stride = windows.sink.row_stride;
  out.recent_table = windows.recent.ids, out.recent_table_stride = windows.recent.row_stride;
  out.capacity = windows.recent.columns * windows.pool.page_tokens;
  out.quantized_lengths = windows.quantized_lengths;
  return out;
}

template <typename Kernel>
void setPool(Kernel &out, const Call &call, const kvq_pool &pool, const void *constants) {
  out.pool = pool.data;
  out.page_stride = pool.page_stride, out.head_stride = pool.head_stride;
  out.page_tokens = pool.page_tokens;
  out.kv_heads = call.heads;
  out.layer = call.layer, out.first_head = call.firstHead;
  out.constants = constants;
}

template <typename Kernel> void setTable(Kernel &out, const kvq_page_table &table) {
  out.block_table = table.ids;
  out.block_table_stride = table.row_stride;
  out.page_indptr = table.indptr;
}

/// The caller's, or those of the library.
const float *sinksOf(const DecodeShape &shape, const kvq_decode_args &args, const void *constants) {
  const int64_t offset = shape.call.format->method.sinksOffset(shape.call.layer);
  if (args.sinks || offset < 0)
    return args.sinks;
  const char *base = static_cast<const char *>(constants) + offset;
  return reinterpret_cast<const float *>(base) + shape.call.firstHead * shape.ratio;
}

} // namespace

int64_t longestOf(const DecodeShape &shape, const kvq_decode_args &args) {
  // A plan may be made before the pages of a layer are known: then max_length alone is the bound.
  if (!args.pool.page_tokens)
    return args.max_length;
  const CacheMethod &method = shape.call.format->method;
  int64_t tokens = args.table.columns * args.pool.page_tokens;
  if (method.windowed())
    tokens += method.sink + args.windows.recent.columns * args.windows.pool.page_tokens;
  return std::min(args.max_length, tokens);
}

int64_t recordBytes(const RecordLayout &layout, int64_t pageTokens) {
  return pageTokens / layout.spec.block * layout.blockBytes;
}

Status placeCall(const kvq_library &library, const kvq_place &place, Call &call) {
  if (Status status = formatOf(library, place.layer, call.format, call.layer); !status.ok())
    return {status.code, "place." + status.message};
  const CacheMethod &method = call.format->method;
  Arguments check;
  const Scope scope(check, "place.");
  check.range("first_head", place.first_head, 0, method.kv_heads - 1);
  call.firstHead = place.first_head;
  call.heads = place.kv_heads ? place.kv_heads : method.kv_heads;
  if (place.kv_heads)
    check.range("kv_heads", place.kv_heads, 1, method.kv_heads);
  if (check.ok() && call.firstHead + call.heads > method.kv_heads)
    check.fail("first_head + place.kv_heads", "at most " + std::to_string(method.kv_heads),
               std::to_string(call.firstHead + call.heads));
  return check.status;
}

Status needKernel(const Format &format, KernelRole role) {
  if (!format.codeStatus.ok())
    return format.codeStatus;
  const bool there = format.device ? format.device->has(role) : format.code.has(role);
  if (there)
    return {};
  return {KVQ_UNSUPPORTED,
          std::string("the library has no kernel '") + roleName(role) + "' for this target"};
}

Status needWindows(const Format &format) {
  if (format.method.windowed())
    return {};
  return {KVQ_UNSUPPORTED, "the format has no high-precision windows"};
}

Status checkAppendStep(const Format &format) {
  if (format.layout.append == 1)
    return {};
  return {KVQ_UNSUPPORTED, "the records are written " + std::to_string(format.layout.append) +
                               " tokens at once, the kernels append one by one"};
}

void checkTokenCount(Arguments &check, const kvq_token_args &args) {
  check.range("tokens", args.tokens, 0, INT32_MAX);
}

/// Rows that dequantize writes must not lie on each other.
static void checkWritten(Arguments &check, const Call &call, const kvq_token_args &args) {
  const CacheMethod &method = call.format->method;
  auto bytesOf = [&](const SideMethod &side) {
    return (args.flags & KVQ_ROWS_F32 ? 4 : elementBytes(side.rows)) * int64_t(side.record.dim);
  };
  const int64_t key = bytesOf(method.key), value = bytesOf(method.value);
  checkApart(check, "k_token_stride", args.k_token_stride, key, args.tokens);
  checkApart(check, "k_head_stride", args.k_head_stride, key, call.heads);
  checkApart(check, "v_token_stride", args.v_token_stride, value, args.tokens);
  checkApart(check, "v_head_stride", args.v_head_stride, value, call.heads);
}

void checkTokens(Arguments &check, const Call &call, KernelRole role, const kvq_token_args &args) {
  const uint32_t all = KVQ_SLOTS_32 | KVQ_RESERVED_SLOT | KVQ_STORED_BASIS | KVQ_ROWS_F32;
  const uint32_t flags =
      role == KernelRole::dequantize ? all : uint32_t(KVQ_SLOTS_32 | KVQ_RESERVED_SLOT);
  if (args.flags & ~flags)
    check.fail("flags", "only those of " + std::to_string(flags), std::to_string(args.flags));
  if (role == KernelRole::append_window)
    checkWindowPool(check, "pool.", call, args.pool);
  else
    checkRecordPool(check, call, args.pool);
  check.pointer("k", args.k, Arguments::kRowAlign);
  check.pointer("v", args.v, Arguments::kRowAlign);
  check.pointer("slots", args.slots, args.flags & KVQ_SLOTS_32 ? 4 : 8);
  check.multiple("k_token_stride", args.k_token_stride, Arguments::kRowAlign);
  check.multiple("k_head_stride", args.k_head_stride, Arguments::kRowAlign);
  check.multiple("v_token_stride", args.v_token_stride, Arguments::kRowAlign);
  check.multiple("v_head_stride", args.v_head_stride, Arguments::kRowAlign);
  if (args.flags & KVQ_RESERVED_SLOT)
    check.range("reserved_slot", args.reserved_slot, 0, INT64_MAX);
  if (role == KernelRole::dequantize)
    checkWritten(check, call, args);
}

void checkDemote(Arguments &check, const Call &call, const kvq_demote_args &args) {
  checkRecordPool(check, call, args.pool);
  checkTable(check, "table.", args.table, args.batch, /*ragged=*/true);
  checkWindows(check, call, args.windows, args.batch, /*moves=*/true);
  check.pointer("to", args.to, sizeof(int32_t));
}

void checkCommit(Arguments &check, const kvq_commit_args &args) {
  check.range("batch", args.batch, 0, INT32_MAX);
  check.range("step", args.step, 1, INT32_MAX);
  if (!args.batch)
    return;
  check.pointer("lengths", args.lengths, sizeof(int32_t));
  check.pointer("from", args.from, sizeof(int32_t));
  check.pointer("to", args.to, sizeof(int32_t));
}

void checkMove(Arguments &check, const Call &call, const kvq_move_args &args) {
  check.range("count", args.count, 0, INT32_MAX);
  if (!check.ok() || !args.count)
    return;
  checkRecordPool(check, call, args.pool);
  check.pointer("pages", args.pages, sizeof(int32_t));
  check.pointer("data", args.data, 1);
  if (!check.ok())
    return;
  for (int64_t i = 0; i < args.count; ++i)
    if (args.pages[i] < 0)
      check.fail("pages[" + std::to_string(i) + "]", "0 or more", std::to_string(args.pages[i]));
  int64_t bytes = recordBytes(call.format->layout, args.pool.page_tokens);
  if (__builtin_mul_overflow(bytes, args.count * call.heads, &bytes))
    return check.fail("count", "pages of less than 2^63 bytes", std::to_string(args.count));
  if (args.bytes < size_t(bytes))
    check.fail("bytes", "at least " + std::to_string(bytes), std::to_string(args.bytes));
}

Status shapeOf(const kvq_library &library, const kvq_decode_args &args, Arguments &check,
               DecodeShape &shape) {
  if (Status status = placeCall(library, args.place, shape.call); !status.ok())
    return status;
  if (Status status = needKernel(*shape.call.format, KernelRole::decode); !status.ok())
    return status;
  const Format &format = *shape.call.format;
  const CacheMethod &method = format.method;
  shape.ratio = method.q_heads / method.kv_heads;
  shape.qLength = args.q_length ? args.q_length : 1;
  check.range("batch", args.batch, 0, INT32_MAX);
  check.range("max_length", args.max_length, 0, INT32_MAX);
  check.range("q_length", args.q_length, 0, KVQ_MAX_Q_LENGTH);
  check.range("q_heads", args.q_heads, 0, kMaxQHeads);
  check.multiple("q_heads", args.q_heads, shape.call.heads);
  if (args.q_heads)
    shape.ratio = args.q_heads / shape.call.heads;
  if (!check.ok())
    return check.status;
  shape.rowClass = format.device ? format.device->rows() : format.code.rows;
  shape.rowBlocks = (shape.qLength * shape.ratio + shape.rowClass - 1) / shape.rowClass;
  shape.segments = args.batch * shape.call.heads * shape.rowBlocks;
  return {};
}

void checkDecode(Arguments &check, const DecodeShape &shape, const kvq_decode_args &args,
                 bool plan) {
  const bool windows = shape.call.format->method.windowed();
  check.pointer("lengths", args.lengths, sizeof(int32_t));
  if (args.q_indptr)
    check.pointer("q_indptr", args.q_indptr, sizeof(int32_t));
  check.range("window", args.window, -1, INT32_MAX);
  check.range("flags", args.flags, 0, KVQ_DECODE_PLANNED);
  if (!windows)
    checkNoWindows(check, args.windows);
  if (plan) {
    if (windows)
      check.pointer("windows.quantized_lengths", args.windows.quantized_lengths, sizeof(int32_t));
    return;
  }
  checkRecordPool(check, shape.call, args.pool);
  checkTable(check, "table.", args.table, args.batch, /*ragged=*/true);
  if (windows)
    checkWindows(check, shape.call, args.windows, args.batch, /*moves=*/false);
  checkQueries(check, shape, args);
  check.finite("scale", args.scale);
}

void checkWorkspace(Arguments &check, const kvq_decode_args &args, int64_t bytes) {
  if (bytes)
    check.pointer("workspace", args.workspace, KVQ_WORKSPACE_ALIGN);
  if (check.ok() && args.workspace_bytes < size_t(bytes))
    check.fail("workspace_bytes", "at least " + std::to_string(bytes),
               std::to_string(args.workspace_bytes));
}

kvq_token_kernel_args kernelArguments(const Call &call, const kvq_token_args &args,
                                      const void *constants) {
  kvq_token_kernel_args out = {};
  out.k = args.k, out.v = args.v;
  out.k_token_stride = args.k_token_stride, out.k_head_stride = args.k_head_stride;
  out.v_token_stride = args.v_token_stride, out.v_head_stride = args.v_head_stride;
  out.slots = args.slots;
  out.slot_bytes = args.flags & KVQ_SLOTS_32 ? 4 : 8;
  out.reserved_slot = args.flags & KVQ_RESERVED_SLOT ? args.reserved_slot : -1;
  out.stored = (args.flags & KVQ_STORED_BASIS) != 0;
  out.f32 = (args.flags & KVQ_ROWS_F32) != 0;
  out.tokens = args.tokens;
  setPool(out, call, args.pool, constants);
  return out;
}

kvq_demote_kernel_args kernelArguments(const Call &call, const kvq_demote_args &args,
                                       const void *constants) {
  kvq_demote_kernel_args out = {};
  out.window = placesOf(args.windows);
  out.from = args.windows.quantized_lengths;
  out.to = const_cast<int32_t *>(args.to); // demote only reads it
  setPool(out, call, args.pool, constants);
  setTable(out, args.table);
  out.batch = args.batch, out.most = args.most;
  return out;
}

kvq_decode_kernel_args kernelArguments(const DecodeShape &shape, const kvq_decode_args &args,
                                       const void *constants) {
  const CacheMethod &method = shape.call.format->method;
  kvq_decode_kernel_args out = {};
  out.q = args.q, out.out = args.out, out.lse = args.lse;
  out.q_token_stride = args.q_token_stride, out.q_head_stride = args.q_head_stride;
  out.out_token_stride = args.out_token_stride, out.out_head_stride = args.out_head_stride;
  out.lse_token_stride = args.lse_token_stride, out.lse_head_stride = args.lse_head_stride;
  out.q_indptr = args.q_indptr, out.q_length = shape.qLength;
  out.ratio = shape.ratio, out.row_blocks = shape.rowBlocks;
  setPool(out, shape.call, args.pool, constants);
  setTable(out, args.table);
  out.lengths = args.lengths, out.batch = args.batch;
  out.max_length = longestOf(shape, args);
  const int64_t window = args.window ? args.window : method.attention.window;
  out.window = window > 0 ? window : INT32_MAX;
  out.sinks = sinksOf(shape, args, constants);
  out.scale = args.scale != 0 ? args.scale : method.attention.scale;
  if (method.windowed())
    out.windows = placesOf(args.windows);
  return out;
}

} // namespace kvq

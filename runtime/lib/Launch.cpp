// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/Launch.h"

#include "runtime/lib/Checks.h"
#include "runtime/lib/cuda/Launch.h"

#include <algorithm>
#include <cstring>

namespace kvq {
namespace {

/// What the checks work out of decode arguments.
struct DecodePlan {
  DecodeShape shape;
  int64_t splitTokens = 0, splits = 0, parts = 0; ///< parts: splits, and one for windows
  int64_t pieces = 0;                             ///< (segment, part)
  int64_t partialAt = 0, workspaceBytes = 0;
};

Status planDecode(const kvq_library &library, const kvq_decode_args &args, DecodePlan &plan) {
  Arguments check;
  if (Status status = shapeOf(library, args, check, plan.shape); !status.ok())
    return status;
  const Format &format = *plan.shape.call.format;
  const int64_t step = format.layout.spec.block;
  check.range("split_tokens", args.split_tokens, 0, KVQ_MAX_SPLIT_TOKENS);
  check.multiple("split_tokens", args.split_tokens, step);
  if (!check.ok())
    return check.status;
  plan.splitTokens = args.split_tokens ? args.split_tokens : roundUp(KVQ_SPLIT_TOKENS, step);
  plan.splits = std::max<int64_t>(1, (args.max_length + plan.splitTokens - 1) / plan.splitTokens);
  plan.parts = plan.splits + format.method.windowed();
  const WorkspaceFloats &info = format.code.info;
  int64_t query = 0, partial = 0;
  bool fits = !__builtin_mul_overflow(plan.shape.segments, plan.parts, &plan.pieces);
  fits = fits && !__builtin_mul_overflow(plan.shape.segments, 4 * info.query_floats, &query);
  fits = fits && !__builtin_mul_overflow(plan.pieces, 4 * info.partial_floats, &partial);
  fits = fits && query < INT64_MAX / 4 && partial < INT64_MAX / 4;
  if (!fits)
    check.fail("batch, max_length", "a workspace of less than 2^61 bytes", "more");
  plan.partialAt = kFaultBytes + roundUp(query, KVQ_WORKSPACE_ALIGN);
  plan.workspaceBytes = args.batch ? plan.partialAt + partial : kFaultBytes;
  return check.status;
}

std::string indexed(const char *name, int64_t i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

/// Tokens of the records and of the recent window, each against its table.
void checkPlaces(Arguments &check, const Format &format, const kvq_decode_args &args, int64_t i) {
  const int64_t length = args.lengths[i], sink = format.method.sink;
  int64_t records = length;
  if (format.method.windowed()) {
    records = args.windows.quantized_lengths[i];
    const int64_t most = std::max<int64_t>(0, length - sink);
    const int64_t capacity = args.windows.recent.columns * args.windows.pool.page_tokens;
    if (records < 0 || records > most)
      return check.fail(indexed("windows.quantized_lengths", i),
                        "0 to " + std::to_string(most) + ", the tokens behind the sink",
                        std::to_string(records));
    if (most - records > capacity)
      return check.fail(indexed("lengths", i),
                        "at most the " + std::to_string(capacity) + " rows of the recent window",
                        std::to_string(most - records) + " tokens that are not quantized");
  }
  const int64_t columns =
      args.table.indptr ? args.table.indptr[i + 1] - args.table.indptr[i] : args.table.columns;
  if ((records + args.pool.page_tokens - 1) / args.pool.page_tokens > columns)
    check.fail(indexed("lengths", i),
               "at most the " + std::to_string(columns) + " pages of its row of the table",
               std::to_string(records) + " tokens in pages of " +
                   std::to_string(args.pool.page_tokens));
}

/// The numbers in the tables, which a CPU can read.
void checkNumbers(Arguments &check, const DecodeShape &shape, const kvq_decode_args &args) {
  for (int64_t i = 0; check.ok() && i < args.batch; ++i) {
    if (args.lengths[i] < 0 || args.lengths[i] > args.max_length)
      return check.fail(indexed("lengths", i),
                        "0 to max_length, " + std::to_string(args.max_length),
                        std::to_string(args.lengths[i]));
    const int64_t queries = args.q_indptr ? args.q_indptr[i + 1] - args.q_indptr[i] : 0;
    if (queries < 0 || queries > shape.qLength || (i == 0 && args.q_indptr && args.q_indptr[0] < 0))
      return check.fail(indexed("q_indptr", i + 1),
                        "0 to q_length, " + std::to_string(shape.qLength) +
                            ", more than the one before",
                        std::to_string(queries));
    checkPlaces(check, *shape.call.format, args, i);
  }
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

template <typename Fn, typename Args>
void runItems(kvq_library &library, const kvq_execution &execution, int64_t items, Fn fn,
              const Args &args) {
  Task<Fn, Args> task{fn, &args};
  library.parallel(execution.parallel_for, execution.parallel_context, items, Task<Fn, Args>::run,
                   &task);
}

kvq_cpu_token_fn tokenKernel(const HostCode &code, KernelRole role) {
  return role == KernelRole::append          ? code.append
         : role == KernelRole::append_window ? code.appendWindow
                                             : code.dequantize;
}

/// The numbers of a demotion, which a CPU can read.
void checkMoves(Arguments &check, const kvq_demote_args &args) {
  const int64_t capacity = args.windows.recent.columns * args.windows.pool.page_tokens;
  for (int64_t i = 0; check.ok() && i < args.batch; ++i) {
    const int64_t from = args.windows.quantized_lengths[i], to = args.to[i];
    if (from < 0 || to < from || to - from > std::min(args.most, capacity))
      check.fail(indexed("to", i),
                 std::to_string(from) + " and at most " + std::to_string(args.most) + " more",
                 std::to_string(to));
    const int64_t columns =
        args.table.indptr ? args.table.indptr[i + 1] - args.table.indptr[i] : args.table.columns;
    if (check.ok() && (to + args.pool.page_tokens - 1) / args.pool.page_tokens > columns)
      check.fail(indexed("to", i),
                 "at most the " + std::to_string(columns) + " pages of its row of the table",
                 std::to_string(to) + " tokens in pages of " +
                     std::to_string(args.pool.page_tokens));
  }
}

} // namespace

Status launchTokens(kvq_library &library, KernelRole role, const kvq_token_args &args) {
  Call call;
  if (Status status = placeCall(library, args.place, call); !status.ok())
    return status;
  if (role == KernelRole::append_window)
    if (Status status = needWindows(*call.format); !status.ok())
      return status;
  if (Status status = needKernel(*call.format, role); !status.ok())
    return status;
  if (role == KernelRole::append)
    if (Status status = checkAppendStep(*call.format); !status.ok())
      return status;
  Arguments check;
  checkTokenCount(check, args);
  if (!check.ok() || args.tokens == 0)
    return check.status;
  checkTokens(check, call, role, args);
  if (!check.ok())
    return check.status;
  if (call.format->device)
    return cuda::launchTokens(call, role, args);
  const auto kernel = kernelArguments(call, args, call.format->constants.data);
  runItems(library, args.execution, args.tokens * call.heads, tokenKernel(call.format->code, role),
           kernel);
  return {};
}

Status launchCommit(kvq_library &library, const kvq_commit_args &args) {
  Call call;
  if (Status status = placeCall(library, {args.layer, 0, 0}, call); !status.ok())
    return status;
  const Format &format = *call.format;
  if (Status status = needWindows(format); !status.ok())
    return status;
  if (Status status = needKernel(format, KernelRole::commit); !status.ok())
    return status;
  Arguments check;
  checkCommit(check, args);
  if (!check.ok() || !args.batch)
    return check.status;
  if (format.device)
    return cuda::launchCommit(call, args);
  for (int64_t i = 0; i < args.batch; ++i) {
    const int64_t leave = int64_t(args.lengths[i]) - format.method.sink - format.method.recent;
    const int64_t whole = std::max<int64_t>(leave, 0) / args.step * args.step;
    args.to[i] = int32_t(std::max<int64_t>(args.from[i], whole));
  }
  return {};
}

Status launchDemote(kvq_library &library, const kvq_demote_args &args) {
  Call call;
  if (Status status = placeCall(library, args.place, call); !status.ok())
    return status;
  if (Status status = needWindows(*call.format); !status.ok())
    return status;
  if (Status status = needKernel(*call.format, KernelRole::demote); !status.ok())
    return status;
  Arguments check;
  check.range("batch", args.batch, 0, INT32_MAX);
  check.range("most", args.most, 0, INT32_MAX);
  if (check.ok() && args.most && args.batch > INT32_MAX / args.most)
    check.fail("batch, most", "at most " + std::to_string(INT32_MAX) + " tokens over all sequences",
               "more");
  if (!check.ok() || !args.batch || !args.most)
    return check.status;
  checkDemote(check, call, args);
  if (!check.ok())
    return check.status;
  if (call.format->device)
    return cuda::launchDemote(call, args);
  checkMoves(check, args);
  if (!check.ok())
    return check.status;
  const auto kernel = kernelArguments(call, args, call.format->constants.data);
  runItems(library, args.execution, args.batch * args.most * call.heads, call.format->code.demote,
           kernel);
  return {};
}

Status workspaceSize(const kvq_library &library, const kvq_decode_args &args, size_t &bytes) {
  if (library.device)
    return cuda::workspaceSize(library, args, bytes);
  DecodePlan plan;
  if (Status status = planDecode(library, args, plan); !status.ok())
    return status;
  bytes = size_t(plan.workspaceBytes);
  return {};
}

Status initWorkspace(kvq_library &library, void *workspace, size_t bytes, void *stream) {
  Arguments check;
  check.pointer("workspace", workspace, KVQ_WORKSPACE_ALIGN);
  if (check.ok() && bytes < size_t(kFaultBytes))
    check.fail("bytes", "at least " + std::to_string(kFaultBytes), std::to_string(bytes));
  if (!check.ok())
    return check.status;
  if (library.device)
    return cuda::initWorkspace(library, workspace, stream);
  std::memset(workspace, 0, kFaultBytes);
  return {};
}

Status launchPlan(kvq_library &library, const kvq_decode_args &args) {
  if (library.device)
    return cuda::launchPlan(library, args);
  // A CPU divides nothing in advance: the call only checks.
  DecodePlan plan;
  if (Status status = planDecode(library, args, plan); !status.ok())
    return status;
  Arguments check;
  if (args.batch)
    checkDecode(check, plan.shape, args, /*plan=*/true);
  checkWorkspace(check, args, plan.workspaceBytes);
  return check.status;
}

Status launchDecode(kvq_library &library, const kvq_decode_args &args) {
  if (library.device)
    return cuda::launchDecode(library, args);
  DecodePlan plan;
  if (Status status = planDecode(library, args, plan); !status.ok())
    return status;
  if (args.batch == 0)
    return {};
  Arguments check;
  checkDecode(check, plan.shape, args, /*plan=*/false);
  if (check.ok())
    checkNumbers(check, plan.shape, args);
  checkWorkspace(check, args, plan.workspaceBytes);
  if (!check.ok())
    return check.status;
  const Format &format = *plan.shape.call.format;
  kvq_decode_kernel_args kernel = kernelArguments(plan.shape, args, format.constants.data);
  kernel.split_tokens = plan.splitTokens, kernel.max_splits = plan.splits;
  char *workspace = static_cast<char *>(args.workspace);
  kernel.query = reinterpret_cast<float *>(workspace + kFaultBytes);
  kernel.partial = reinterpret_cast<float *>(workspace + plan.partialAt);
  runItems(library, args.execution, plan.shape.segments, format.code.prepare, kernel);
  runItems(library, args.execution, plan.pieces, format.code.decode, kernel);
  runItems(library, args.execution, plan.shape.segments, format.code.merge, kernel);
  return {};
}

} // namespace kvq

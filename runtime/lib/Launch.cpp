// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/Launch.h"

#include "runtime/lib/Checks.h"
#include "runtime/lib/cuda/Launch.h"

#include <algorithm>

namespace kvq {
namespace {

/// What the checks work out of decode arguments.
struct DecodePlan {
  CallHeads heads;
  int64_t splitTokens = 0, splits = 0;
  int64_t pairs = 0, pieces = 0; ///< (sequence, KV head), and (sequence, KV head, split)
  int64_t queryBytes = 0;        ///< of the workspace's first part, a multiple of its alignment
  int64_t workspaceBytes = 0;
};

void planDecode(Arguments &check, const Format &format, const kvq_decode_args &args,
                DecodePlan &plan) {
  const int64_t step = format.layout.spec.block;
  plan.heads = checkDecodeSize(check, format.method, args);
  check.range("split_tokens", args.split_tokens, 0, KVQ_MAX_SPLIT_TOKENS);
  check.multiple("split_tokens", args.split_tokens, step);
  plan.splitTokens = args.split_tokens ? args.split_tokens : roundUp(KVQ_SPLIT_TOKENS, step);
  if (!check.ok())
    return;
  plan.splits = std::max<int64_t>(1, (args.max_length + plan.splitTokens - 1) / plan.splitTokens);
  const WorkspaceFloats &info = format.code.info;
  int64_t query = 0, partial = 0;
  plan.pairs = args.batch * plan.heads.heads; // below 2^47
  bool fits = !__builtin_mul_overflow(plan.pairs, plan.splits, &plan.pieces);
  fits = fits && !__builtin_mul_overflow(plan.pairs, 4 * info.query_floats, &query);
  fits = fits && !__builtin_mul_overflow(plan.pieces, 4 * info.partial_floats, &partial);
  fits = fits && query < INT64_MAX / 4 && partial < INT64_MAX / 4;
  if (!fits)
    return check.fail("batch, max_length", "a workspace of less than 2^61 bytes", "more");
  plan.queryBytes = roundUp(query, KVQ_WORKSPACE_ALIGN);
  plan.workspaceBytes = plan.queryBytes + partial;
}

/// The numbers in the tables, which a CPU can read.
void checkLengths(Arguments &check, const kvq_decode_args &args) {
  const int64_t columns = args.block_table_columns;
  for (int64_t i = 0; check.ok() && i < args.batch; ++i) {
    const int64_t length = args.lengths[i];
    if (length < 0 || length > args.max_length)
      check.fail("lengths[" + std::to_string(i) + "]",
                 "0 to max_length, " + std::to_string(args.max_length), std::to_string(length));
    else if ((length + args.page_tokens - 1) / args.page_tokens > columns)
      check.fail("lengths[" + std::to_string(i) + "]",
                 "at most the " + std::to_string(columns) + " pages of a row of the block table",
                 std::to_string(length) + " tokens in pages of " +
                     std::to_string(args.page_tokens));
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
using AppendTask = Task<kvq_cpu_append_fn, kvq_cpu_append_args>;
using DecodeTask = Task<kvq_cpu_decode_fn, kvq_cpu_decode_args>;

} // namespace

Status launchAppend(kvq_library &library, const kvq_append_args &args) {
  const Format *format = nullptr;
  int64_t layer = 0;
  if (Status status = formatOf(library, args.layer, format, layer); !status.ok())
    return status;
  if (format->device)
    return cuda::launchAppend(*format, layer, args);
  if (!format->codeStatus.ok())
    return format->codeStatus;
  if (Status status = checkAppendStep(*format); !status.ok())
    return status;
  Arguments check;
  const CallHeads heads = checkAppendSize(check, format->method, args);
  if (!check.ok() || args.tokens == 0)
    return check.status;
  checkAppend(check, *format, args);
  if (!check.ok())
    return check.status;
  kvq_cpu_append_args kernel = kernelArguments(args, heads, format->constants.data);
  kernel.layer = layer;
  AppendTask task{format->code.append, &kernel};
  library.parallel(args.parallel_for, args.parallel_context, args.tokens * heads.heads,
                   AppendTask::run, &task);
  return {};
}

Status workspaceSize(const kvq_library &library, const kvq_decode_args &args, size_t &bytes) {
  const Format *format = nullptr;
  int64_t layer = 0;
  if (Status status = formatOf(library, args.layer, format, layer); !status.ok())
    return status;
  if (format->device)
    return cuda::workspaceSize(*format, args, bytes);
  if (!format->codeStatus.ok())
    return format->codeStatus;
  Arguments check;
  DecodePlan plan;
  planDecode(check, *format, args, plan);
  if (check.ok())
    bytes = size_t(plan.workspaceBytes);
  return check.status;
}

Status launchDecode(kvq_library &library, const kvq_decode_args &args) {
  const Format *format = nullptr;
  int64_t layer = 0;
  if (Status status = formatOf(library, args.layer, format, layer); !status.ok())
    return status;
  if (format->device)
    return cuda::launchDecode(*format, layer, args);
  if (!format->codeStatus.ok())
    return format->codeStatus;
  Arguments check;
  DecodePlan plan;
  planDecode(check, *format, args, plan);
  if (!check.ok() || args.batch == 0)
    return check.status;
  checkDecode(check, *format, args, plan.heads);
  checkLengths(check, args);
  checkWorkspace(check, args, plan.workspaceBytes);
  if (!check.ok())
    return check.status;
  kvq_cpu_decode_args kernel = kernelArguments(*format, args, plan.heads, format->constants.data);
  kernel.layer = layer;
  kernel.split_tokens = plan.splitTokens, kernel.max_splits = plan.splits;
  kernel.query = static_cast<float *>(args.workspace);
  kernel.partial = reinterpret_cast<float *>(static_cast<char *>(args.workspace) + plan.queryBytes);
  for (auto [fn, items] :
       {std::pair(format->code.prepare, plan.pairs), std::pair(format->code.decode, plan.pieces),
        std::pair(format->code.merge, plan.pairs)}) {
    DecodeTask task{fn, &kernel};
    library.parallel(args.parallel_for, args.parallel_context, items, DecodeTask::run, &task);
  }
  return {};
}

} // namespace kvq

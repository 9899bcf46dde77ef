// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a handle points to.
#pragma once

#include "runtime/format/method.h"
#include "runtime/lib/HostCode.h"
#include "runtime/lib/ThreadPool.h"
#include "runtime/lib/cuda/DeviceCode.h"

#include <memory>
#include <mutex>

/// A library in memory. After open, only `pool` changes, under `poolOnce`, and what `device` has
/// loaded, under its own lock.
struct kvq_library {
  kvq::FileBytes bytes;
  kvq::LibraryView view; ///< into bytes
  std::string methodText, manifestText;
  kvq::CacheMethod method;
  kvq::RecordLayout layout; ///< of the default page
  kvq::HostCode code;
  kvq::Status codeStatus;                        ///< why there is no code
  std::unique_ptr<kvq::cuda::DeviceCode> device; ///< of KVQ_TARGET_CUDA, else null
  int threads = 0;

  void parallel(kvq_parallel_for callback, void *context, int64_t items, kvq_item_fn fn,
                void *task);

private:
  std::once_flag poolOnce;
  std::unique_ptr<kvq::ThreadPool> pool;
};

namespace kvq {

/// Takes the file apart and loads its code if the options allow it.
Status openLibrary(FileBytes bytes, const kvq_open_options &options,
                   std::unique_ptr<kvq_library> &out);

kvq_geometry geometryOf(const kvq_library &library);

/// Layout for a page of that many tokens, 0 for the default; INVALID_ARGUMENT if it is not legal.
Status pageLayout(const kvq_library &library, int64_t pageTokens, RecordLayout &out);

/// Every reason against a use, one a line.
std::string refusals(const kvq_library &library, const kvq_use &use);

} // namespace kvq

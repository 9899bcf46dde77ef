// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The library that is checked, and what the oracle needs to know of it.
#pragma once

#include "kvq/runtime.h"
#include "runtime/format/library.h"
#include "runtime/reference/Constants.h"
#include "tools/device/Device.h"

#include <memory>
#include <string>

namespace kvq {

struct CloseLibrary {
  void operator()(kvq_library *library) const { kvq_close(library); }
};

struct Subject {
  /// Opens a library for the target of `device`. Throws std::runtime_error.
  Subject(const std::string &path, Device &device);
  /// The same from bytes; `name` is for messages and reports.
  Subject(const std::string &name, FileBytes bytes, Device &device);

  Subject(const Subject &) = delete;
  Subject &operator=(const Subject &) = delete;

  int group() const { return method.q_heads / method.kv_heads; }
  RecordLayout layout(int64_t page) const;
  /// Query rows that the decode kernel takes at once.
  int rowClass() const;

  Device &device;
  std::string name; ///< the file's name without folder and suffix
  FileBytes bytes;
  LibraryView view; ///< into bytes
  std::unique_ptr<kvq_library, CloseLibrary> library;
  CacheMethod method;
  Constants constants;
  int64_t layer; ///< the last: its constants are not where a kernel that ignores the layer looks
};

/// Throws std::runtime_error with the runtime's message unless `status` is KVQ_OK.
void require(const char *call, kvq_status status);

/// A workspace for the decode of `args`, ff but for what kvq_workspace_init writes, and entered
/// there. Throws std::runtime_error.
Buffer makeWorkspace(const Subject &subject, kvq_decode_args &args);

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CPU kernels of a library, loaded into this process.
#pragma once

#include "runtime/format/library.h"
#include "runtime/lib/Status.h"

namespace kvq {

/// Machine code loaded from memory.
class SharedObject {
public:
  SharedObject() = default;
  SharedObject(SharedObject &&other) noexcept;
  SharedObject &operator=(SharedObject &&other) noexcept;
  ~SharedObject();

  static Status load(ByteSpan bytes, SharedObject &out);
  /// Null if there is no such symbol.
  void *symbol(const std::string &name) const;

private:
  void *handle = nullptr;
};

struct HostCode {
  SharedObject object;
  kvq_cpu_append_fn append = nullptr;
  kvq_cpu_decode_fn prepare = nullptr, decode = nullptr, merge = nullptr;
  kvq_cpu_kernel_info info = {0, 0};

  bool loaded() const { return merge != nullptr; }
};

/// The kernels of one instruction set level.
struct KernelSet {
  std::string level;
  const LibraryKernel *roles[4] = {}; ///< by KernelRole
};

/// The best set that this CPU can run. UNSUPPORTED, with the reason, if there is none;
/// INVALID_FILE if a set lacks a role, or its kernels do not fit together.
Status chooseKernels(const LibraryView &library, KernelSet &out);

Status loadHostCode(const LibraryView &library, const KernelSet &kernels, HostCode &out);

} // namespace kvq

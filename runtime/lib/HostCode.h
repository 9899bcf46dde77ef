// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CPU kernels of a library, loaded into this process.
#pragma once

#include "kvq/kernel_abi.h"
#include "runtime/lib/KernelSets.h"

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
  kvq_cpu_token_fn append = nullptr;
  kvq_cpu_decode_fn prepare = nullptr, decode = nullptr, merge = nullptr;
  // Null where the library has none.
  kvq_cpu_token_fn appendWindow = nullptr, dequantize = nullptr;
  kvq_cpu_demote_fn demote = nullptr;
  WorkspaceFloats info;
  int32_t rows = 1; ///< row class of decode

  bool loaded() const { return merge != nullptr; }
  /// The CPU commits without a kernel.
  bool has(KernelRole role) const;
};

/// The best of the CPU sets that this CPU can run. UNSUPPORTED, with the reason, if there is none.
Status chooseKernels(const std::vector<KernelSet> &sets, KernelSet &out);

Status loadHostCode(const LibraryView &library, const KernelSet &kernels, HostCode &out);

} // namespace kvq

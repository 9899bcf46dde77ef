// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of a library, sorted by what they run on.
#pragma once

#include "runtime/format/library.h"
#include "runtime/lib/Status.h"

namespace kvq {

/// The kernels of one target and level. All of them lie in one object.
struct KernelSet {
  std::string target, level;
  const LibraryKernel *roles[kKernelRoles] = {}; ///< by KernelRole; null: the target has no such

  const LibraryKernel &role(KernelRole role) const { return *roles[uint32_t(role)]; }
  uint32_t object() const { return role(KernelRole::append).object; }
  /// "sm_90a (cubin)".
  std::string text() const { return target + (level.empty() ? "" : " (" + level + ")"); }
};

/// All sets of `library`, in the order of its kernel table. INVALID_FILE if one lacks a role, has
/// one twice, is spread over objects or asks for different workspaces.
Status kernelSets(const LibraryView &library, std::vector<KernelSet> &out);

/// "cpu (x86-64), sm_90a (cubin)": texts of the sets for which `wanted` is true.
template <typename Wanted> std::string listSets(const std::vector<KernelSet> &sets, Wanted wanted) {
  std::string list;
  for (const KernelSet &set : sets)
    if (wanted(set))
      list += (list.empty() ? "" : ", ") + set.text();
  return list;
}

} // namespace kvq

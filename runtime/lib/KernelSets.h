// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of a library, sorted by what they run on.
#pragma once

#include "runtime/format/library.h"
#include "runtime/lib/Status.h"

namespace kvq {

/// The kernels of one format for one target and level. All of them lie in one object. Kernels of a
/// role differ in their rows, and there is one of append, prepare, decode, and merge (cpu) or plan
/// (else) at least; prepare and merge are there for every number of rows that decode has.
struct KernelSet {
  uint32_t format = 0;
  std::string target, level;
  std::vector<const LibraryKernel *> kernels; ///< by role, then by rows

  /// The kernel of a role; decode and what works with it: for `rows` query rows, 0 meaning the
  /// first one. Null if there is none. A kernel made for any number of rows serves all.
  const LibraryKernel *find(KernelRole role, int32_t rows = 0) const;
  /// One that must be there.
  const LibraryKernel &role(KernelRole role) const { return *find(role); }
  uint32_t object() const { return kernels.front()->object; }
  /// "sm_90a (cubin)".
  std::string text() const { return target + (level.empty() ? "" : " (" + level + ")"); }
};

/// All sets of `library`, in the order of its kernel table. INVALID_FILE if one lacks a role, has
/// one twice, is spread over objects or asks for different workspaces of the same rows.
Status kernelSets(const LibraryView &library, std::vector<KernelSet> &out);

/// Those of one format.
std::vector<KernelSet> setsOf(const std::vector<KernelSet> &sets, uint32_t format);

/// "cpu (x86-64), sm_90a (cubin)": texts of the sets for which `wanted` is true.
template <typename Wanted> std::string listSets(const std::vector<KernelSet> &sets, Wanted wanted) {
  std::string list;
  for (const KernelSet &set : sets)
    if (wanted(set))
      list += (list.empty() ? "" : ", ") + set.text();
  return list;
}

} // namespace kvq

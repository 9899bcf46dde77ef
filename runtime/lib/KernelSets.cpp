// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/KernelSets.h"

#include <algorithm>

namespace kvq {
namespace {

Status checkSet(const KernelSet &set) {
  const KernelRole last = set.target == "cpu" ? KernelRole::merge : KernelRole::plan;
  const LibraryKernel *first = nullptr, *decode = nullptr;
  for (KernelRole role : {KernelRole::append, KernelRole::prepare, KernelRole::decode, last}) {
    const LibraryKernel *kernel = set.roles[uint32_t(role)];
    if (!kernel)
      return {KVQ_INVALID_FILE, "expected kernels of four roles for " + set.text() +
                                    ", got none for " + roleName(role)};
    if (first && kernel->object != first->object)
      return {KVQ_INVALID_FILE, "expected all kernels for " + set.text() + " in one object, got '" +
                                    first->symbol + "' and '" + kernel->symbol + "' in two"};
    first = first ? first : kernel;
    if (role == KernelRole::append)
      continue;
    if (decode && (kernel->info.query_floats != decode->info.query_floats ||
                   kernel->info.partial_floats != decode->info.partial_floats))
      return {KVQ_INVALID_FILE, "expected one size of workspace of the kernels for " + set.text() +
                                    ", got two in '" + decode->symbol + "' and '" + kernel->symbol +
                                    "'"};
    decode = kernel;
  }
  return {};
}

} // namespace

Status kernelSets(const LibraryView &library, std::vector<KernelSet> &out) {
  std::vector<KernelSet> sets;
  for (const LibraryKernel &kernel : library.kernels) {
    auto set = std::find_if(sets.begin(), sets.end(), [&](const KernelSet &s) {
      return s.target == kernel.target && s.level == kernel.level;
    });
    if (set == sets.end())
      set = sets.insert(set, KernelSet{kernel.target, kernel.level, {}});
    const LibraryKernel *&role = set->roles[uint32_t(kernel.role)];
    if (role)
      return {KVQ_INVALID_FILE, "expected one kernel for " + set->text() + " of the role " +
                                    roleName(kernel.role) + ", got '" + role->symbol + "' and '" +
                                    kernel.symbol + "'"};
    role = &kernel;
  }
  for (const KernelSet &set : sets)
    if (Status status = checkSet(set); !status.ok())
      return status;
  out = std::move(sets);
  return {};
}

} // namespace kvq

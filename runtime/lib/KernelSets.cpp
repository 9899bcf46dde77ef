// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/KernelSets.h"

#include <algorithm>
#include <iterator>

namespace kvq {
namespace {

Status checkObject(const KernelSet &set, const std::string &name) {
  for (const LibraryKernel *kernel : set.kernels)
    if (kernel->object != set.object())
      return {KVQ_INVALID_FILE, "expected all kernels for " + name + " in one object, got '" +
                                    set.kernels.front()->symbol + "' and '" + kernel->symbol +
                                    "' in two"};
  return {};
}

/// What works with a decode kernel must be there for its rows, and share its workspace.
Status checkDecode(const KernelSet &set, const std::string &name, const LibraryKernel &decode) {
  for (KernelRole role : {KernelRole::prepare, KernelRole::merge}) {
    if (!set.find(role))
      continue; // checkSet has seen to it that this target has none
    const LibraryKernel *kernel = set.find(role, decode.rows);
    if (!kernel)
      return {KVQ_INVALID_FILE, "expected a kernel for " + name + " of the role " + roleName(role) +
                                    " that goes with the " + std::to_string(decode.rows) +
                                    " rows of '" + decode.symbol + "', got none"};
    if (kernel->rows && (kernel->info.query_floats != decode.info.query_floats ||
                         kernel->info.partial_floats != decode.info.partial_floats))
      return {KVQ_INVALID_FILE, "expected one size of workspace of the kernels for " + name +
                                    ", got two in '" + kernel->symbol + "' and '" + decode.symbol +
                                    "'"};
  }
  return {};
}

Status checkSet(const KernelSet &set, const std::string &name) {
  const KernelRole last = set.target == "cpu" ? KernelRole::merge : KernelRole::plan;
  for (KernelRole role : {KernelRole::append, KernelRole::prepare, KernelRole::decode, last})
    if (!set.find(role))
      return {KVQ_INVALID_FILE,
              "expected kernels of four roles for " + name + ", got none for " + roleName(role)};
  if (Status status = checkObject(set, name); !status.ok())
    return status;
  for (const LibraryKernel *kernel : set.kernels)
    if (kernel->role == KernelRole::decode)
      if (Status status = checkDecode(set, name, *kernel); !status.ok())
        return status;
  return {};
}

/// "sm_90a (cubin)", and which format where there are several.
std::string nameOf(const KernelSet &set, const LibraryView &library) {
  return set.text() +
         (library.formats.size() > 1 ? " of format " + std::to_string(set.format) : "");
}

bool before(const LibraryKernel *a, const LibraryKernel *b) {
  return a->role != b->role ? a->role < b->role : a->rows < b->rows;
}

} // namespace

const LibraryKernel *KernelSet::find(KernelRole role, int32_t rows) const {
  for (const LibraryKernel *kernel : kernels)
    if (kernel->role == role && (!rows || !kernel->rows || kernel->rows == rows))
      return kernel;
  return nullptr;
}

Status kernelSets(const LibraryView &library, std::vector<KernelSet> &out) {
  std::vector<KernelSet> sets;
  for (const LibraryKernel &kernel : library.kernels) {
    auto set = std::find_if(sets.begin(), sets.end(), [&](const KernelSet &s) {
      return s.format == kernel.format && s.target == kernel.target && s.level == kernel.level;
    });
    if (set == sets.end())
      set = sets.insert(set, KernelSet{kernel.format, kernel.target, kernel.level, {}});
    auto place = std::upper_bound(set->kernels.begin(), set->kernels.end(), &kernel, before);
    if (place != set->kernels.begin() && !before(*(place - 1), &kernel))
      return {KVQ_INVALID_FILE, "expected one kernel for " + nameOf(*set, library) +
                                    " of the role " + roleName(kernel.role) + ", got '" +
                                    (*(place - 1))->symbol + "' and '" + kernel.symbol + "'"};
    set->kernels.insert(place, &kernel);
  }
  for (const KernelSet &set : sets)
    if (Status status = checkSet(set, nameOf(set, library)); !status.ok())
      return status;
  out = std::move(sets);
  return {};
}

std::vector<KernelSet> setsOf(const std::vector<KernelSet> &sets, uint32_t format) {
  std::vector<KernelSet> out;
  std::copy_if(sets.begin(), sets.end(), std::back_inserter(out),
               [&](const KernelSet &set) { return set.format == format; });
  return out;
}

} // namespace kvq

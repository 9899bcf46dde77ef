// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/artifact/Instances.h"

#include "codegen/conversion/gpu/BuildGpuKernels.h"

#include "llvm/ADT/STLExtras.h"

#include <bitset>
#include <random>
#include <tuple>

namespace mlir::kvq {
namespace {

using ::kvq::ElementType;
using ::kvq::ParameterForm;

constexpr int kDims[] = {64, 96, 128, 256};
constexpr int kBits[] = {2, 4, 8};
constexpr int kGroups[] = {32, 64, 128, 0}; ///< 0: the head
constexpr ParameterForm kForms[] = {ParameterForm::min, ParameterForm::zero, ParameterForm::sym};
constexpr ElementType kIoTypes[] = {ElementType::f16, ElementType::bf16};
constexpr ElementType kParameterTypes[] = {ElementType::f16, ElementType::f32};
constexpr int kRowClasses[] = {4, 8, 12, 16};

/// Values of all axes are numbered through: D, bits, group, form, class, io type, parameter type.
constexpr int kFirst[] = {0, 4, 13, 17, 20, 24, 26}, kValues = 28;
using PairSet = std::bitset<kValues * kValues>;

/// Trials of the greedy cover; the smallest wins. More do not make it smaller.
constexpr int kTrials = 16;

struct Candidate {
  KernelName name;
  PairSet pairs;
};

template <typename T, size_t N> int indexIn(const T (&all)[N], T value) {
  return int(llvm::find(all, value) - std::begin(all));
}

/// The values of `name`, axis by axis. A group of the whole head is a value of its own, besides its
/// size.
std::vector<std::vector<int>> valuesOf(const KernelName &name) {
  const KernelSide &key = name.key;
  std::vector<int> group;
  if (key.group == key.dim)
    group.push_back(kFirst[2] + 3);
  if (int size = indexIn(kGroups, key.group); size < 3)
    group.push_back(kFirst[2] + size);
  return {{kFirst[0] + indexIn(kDims, key.dim)},
          {kFirst[1] + 3 * indexIn(kBits, key.bits) + indexIn(kBits, name.value.bits)},
          group,
          {kFirst[3] + indexIn(kForms, key.form)},
          {kFirst[4] + name.rows / 4 - 1},
          {kFirst[5] + indexIn(kIoTypes, name.io)},
          {kFirst[6] + indexIn(kParameterTypes, key.element)}};
}

PairSet pairsOf(const KernelName &name) {
  PairSet pairs;
  const std::vector<std::vector<int>> values = valuesOf(name);
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      for (int a : values[i])
        for (int b : values[j])
          pairs.set(a * kValues + b);
  return pairs;
}

/// What both sides of a kernel of the list have in common.
KernelName commonName(const Chip &chip, int dim, int group, ParameterForm form, ElementType type) {
  KernelName name;
  name.chip = chip.name;
  name.key = name.value = {dim, 2, group ? group : dim, form, type};
  return name;
}

/// Every kernel of the axes that the chip serves.
std::vector<Candidate> allCandidates(const Chip &chip) {
  std::vector<Candidate> all;
  auto add = [&](KernelName name) {
    for (int keyBits : kBits)
      for (int valueBits : kBits)
        for (int rows : kRowClasses)
          for (ElementType io : kIoTypes) {
            name.key.bits = keyBits, name.value.bits = valueBits;
            name.rows = rows, name.io = io;
            if (unsupportedInstance(name, chip).empty())
              all.push_back({name, pairsOf(name)});
          }
  };
  for (int dim : kDims)
    for (int group : kGroups)
      if (group != dim)
        for (ParameterForm form : kForms)
          for (ElementType type : kParameterTypes)
            add(commonName(chip, dim, group, form, type));
  return all;
}

/// Adds, until nothing is left of `open`, a candidate that takes most from it.
void cover(const std::vector<Candidate> &all, PairSet open, std::mt19937_64 &random,
           std::vector<KernelName> &names) {
  while (open.any()) {
    size_t most = 0;
    std::vector<const Candidate *> best;
    for (const Candidate &candidate : all) {
      size_t count = (candidate.pairs & open).count();
      if (count > most)
        most = count, best.clear();
      if (count == most)
        best.push_back(&candidate);
    }
    const Candidate *chosen = best[random() % best.size()];
    names.push_back(chosen->name);
    open &= ~chosen->pairs;
  }
}

auto sortKey(const KernelName &name) {
  const KernelSide &key = name.key, &value = name.value;
  return std::make_tuple(key.dim, value.dim, key.bits, value.bits, key.group, value.group, key.form,
                         value.form, key.element, value.element, name.rows, name.io);
}

/// A kernel that the list has in any case: f16 parameters of the min form, the head as group.
KernelName fixedInstance(const Chip &chip, int dim, int bits) {
  KernelName name = commonName(chip, dim, 0, ParameterForm::min, ElementType::f16);
  name.key.bits = name.value.bits = bits;
  return name;
}

/// A kernel of random properties, which the chip need not serve.
KernelName randomName(const Chip &chip, std::mt19937_64 &random) {
  auto below = [&](size_t count) { return size_t(random() % count); };
  constexpr ElementType types[] = {ElementType::f16, ElementType::bf16, ElementType::f32};
  auto side = [&](int dim) {
    const int group = kGroups[below(4)];
    return KernelSide{dim, kBits[below(3)], group ? group : dim, kForms[below(3)], types[below(3)]};
  };
  KernelName name;
  name.chip = chip.name;
  name.key = side(32 * int(1 + below(8)));
  name.value = name.key;
  if (below(2))
    name.value = side(below(2) ? 32 * int(1 + below(8)) : name.key.dim);
  name.rows = kRowClasses[below(4)];
  name.io = kIoTypes[below(2)];
  return name;
}

} // namespace

std::string unsupportedInstance(const KernelName &name, const Chip &chip) {
  const ::kvq::CacheMethod method = methodOf(name);
  if (const int64_t rows = gpuRowClassOf(method); rows != name.rows)
    return std::string("target ") + chip.name + " expects at most " + std::to_string(rows) +
           " query rows for a V of " + std::to_string(name.value.dim) + " channels, got " +
           std::to_string(name.rows);
  return unsupportedOnGpu(method, chip);
}

std::vector<KernelName> standardInstances(const Chip &chip) {
  const std::vector<Candidate> all = allCandidates(chip);
  std::vector<KernelName> fixed;
  for (const KernelName &name :
       {fixedInstance(chip, 64, 2), fixedInstance(chip, 128, 2), fixedInstance(chip, 128, 4)})
    if (unsupportedInstance(name, chip).empty())
      fixed.push_back(name);
  PairSet open;
  for (const Candidate &candidate : all)
    open |= candidate.pairs;
  for (const KernelName &name : fixed)
    open &= ~pairsOf(name);
  std::vector<KernelName> best;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::mt19937_64 random(trial);
    std::vector<KernelName> names = fixed;
    cover(all, open, random, names);
    if (best.empty() || names.size() < best.size())
      best = std::move(names);
  }
  llvm::sort(best,
             [](const KernelName &a, const KernelName &b) { return sortKey(a) < sortKey(b); });
  return best;
}

std::vector<KernelName> randomInstances(const Chip &chip, int count, uint64_t seed) {
  const std::vector<KernelName> standard = standardInstances(chip);
  std::mt19937_64 random(seed);
  std::vector<KernelName> names;
  while (int(names.size()) < count) {
    KernelName name = randomName(chip, random);
    if (unsupportedInstance(name, chip).empty() && !llvm::is_contained(standard, name) &&
        !llvm::is_contained(names, name))
      names.push_back(name);
  }
  return names;
}

std::string instancesText(const std::vector<KernelName> &names) {
  std::string text;
  for (const KernelName &name : names)
    text += printKernelName(name) + "\n";
  return text;
}

} // namespace mlir::kvq

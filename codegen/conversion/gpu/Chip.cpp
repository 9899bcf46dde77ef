// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/gpu/Chip.h"

namespace mlir::kvq {

static constexpr Chip kChips[] = {
    {"sm_80", "+ptx80", "12.0", 163 * 1024, {false, false}},
    {"sm_89", "+ptx80", "12.0", 99 * 1024, {false, false}},
    {"sm_90a", "+ptx83", "12.3", 227 * 1024, {true, true}},
    {"sm_100a", "+ptx86", "12.8", 227 * 1024, {true, true}},
    {"sm_120a", "+ptx87", "12.8", 99 * 1024, {true, true}},
};

std::optional<Chip> findChip(llvm::StringRef name) {
  for (const Chip &chip : kChips)
    if (name == chip.name)
      return chip;
  return std::nullopt;
}

std::string chipNames() {
  std::string names;
  for (const Chip &chip : kChips)
    names += (names.empty() ? "" : ", ") + std::string(chip.name);
  return names;
}

} // namespace mlir::kvq

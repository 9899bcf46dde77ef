// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The standard list of decode kernels, codegen/instances.txt, and random kernels beside it.
#pragma once

#include "codegen/artifact/KernelName.h"
#include "codegen/conversion/gpu/Chip.h"

#include <vector>

namespace mlir::kvq {

/// The list for a chip: the kernels of the trace in test/data (D 64) and of D 128, 2 and 4 bits, 4
/// query rows; every value of each axis, D 64, 96, 128, 256, bits of K and V of 2, 4, 8, groups 32,
/// 64, 128 and head, forms min, zero and sym, row classes 4, 8, 12, 16, f16 and bf16 rows, f16 and
/// f32 parameters; and every pair of values of two axes that some kernel which the chip can serve
/// has. Sorted; the same on every machine.
std::vector<KernelName> standardInstances(const Chip &chip);

/// `count` different kernels that the chip can serve and that are not on the list; K and V differ
/// in every respect as often as not. The same for the same seed, on every machine.
std::vector<KernelName> randomInstances(const Chip &chip, int count, uint64_t seed);

/// Why `chip` cannot serve the kernel, or an empty string.
std::string unsupportedInstance(const KernelName &name, const Chip &chip);

/// One name a line, as in codegen/instances.txt behind its comment.
std::string instancesText(const std::vector<KernelName> &names);

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ptxas takes the PTX of kernels for every chip beside sm_90a, for which the whole list is
// assembled (the test assemble_instances). There must be a ptxas: tools/scripts/find_ptxas.sh gets
// one.
#include "codegen/artifact/CompileInstances.h"
#include "codegen/artifact/Instances.h"

#include <gtest/gtest.h>

#include <set>

using namespace mlir::kvq;

namespace {

constexpr size_t kMost = 5;

/// Up to five kernels of the chip's list that have all head dims and classes of query rows.
std::vector<KernelName> choose(const Chip &chip) {
  const std::vector<KernelName> list = standardInstances(chip);
  std::set<int> dims, rows;
  std::vector<KernelName> chosen;
  for (int wanted = 2; wanted > 0; --wanted)
    for (const KernelName &name : list) {
      const int added = !dims.count(name.key.dim) + !rows.count(name.rows);
      if (added < wanted)
        continue;
      dims.insert(name.key.dim), rows.insert(name.rows);
      chosen.push_back(name);
    }
  return chosen;
}

bool has(const std::string &ptx, const char *text) { return ptx.find(text) != std::string::npos; }

class AssembleFor : public testing::TestWithParam<const char *> {};

TEST_P(AssembleFor, AllDimsAndQueryRows) {
  ASSERT_NE(findPtxas(), "")
      << "expected ptxas: KVQ_PTXAS, PATH, CUDA_HOME or the toolkit's folder";
  const Chip chip = *findChip(GetParam());
  const std::vector<KernelName> names = choose(chip);
  EXPECT_GE(names.size(), 4u);
  EXPECT_LE(names.size(), kMost);
  size_t count = 0;
  compileInstances(names, /*jobs=*/2, /*machineCode=*/true, [&](CompiledInstance instance) {
    const std::string name = printKernelName(instance.name);
    ++count;
    EXPECT_EQ(instance.error, "") << name;
    EXPECT_EQ(instance.cubin.substr(0, 4), "\x7f"
                                           "ELF")
        << name;
    EXPECT_TRUE(has(instance.ptx, (".target " + std::string(chip.name)).c_str())) << name;
    for (const char *text : {".extern .func", ".local "})
      EXPECT_FALSE(has(instance.ptx, text)) << name << ": " << text;
    EXPECT_EQ(has(instance.ptx, "cp.async.bulk"), chip.features.bulkCopy) << name;
    EXPECT_EQ(has(instance.ptx, "mbarrier"), chip.features.bulkCopy) << name;
    EXPECT_EQ(has(instance.ptx, "griddepcontrol"), chip.features.programmaticLaunch) << name;
  });
  EXPECT_EQ(count, names.size());
}

std::string chipOf(const testing::TestParamInfo<const char *> &info) { return info.param; }
INSTANTIATE_TEST_SUITE_P(Chips, AssembleFor,
                         testing::Values("sm_80", "sm_89", "sm_100a", "sm_120a"), chipOf);

} // namespace

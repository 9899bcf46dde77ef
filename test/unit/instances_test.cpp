// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The standard list of kernels: the file is what the enumerator gives, and covers what it claims.
#include "codegen/artifact/Instances.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

using namespace mlir::kvq;
using ::kvq::ElementType;
using ::kvq::ParameterForm;

namespace {

const Chip &chip() {
  static const Chip chip = *findChip("sm_90a");
  return chip;
}

const std::vector<KernelName> &list() {
  static const std::vector<KernelName> list = standardInstances(chip());
  return list;
}

/// What a kernel has of each axis, in words: "d64", "k2v4", ... A group of the whole head has two.
std::vector<std::string> wordsOf(const KernelName &name) {
  std::vector<std::string> words = {
      "d" + std::to_string(name.key.dim),
      "k" + std::to_string(name.key.bits) + "v" + std::to_string(name.value.bits),
      "form" + std::to_string(int(name.key.form)),
      "r" + std::to_string(name.rows),
      std::string("io ") + ::kvq::elementName(name.io),
      std::string("parameters ") + ::kvq::elementName(name.key.element)};
  if (name.key.group == name.key.dim)
    words.push_back("group head");
  if (name.key.group == 32 || name.key.group == 64 || name.key.group == 128)
    words.push_back("group " + std::to_string(name.key.group));
  return words;
}

std::set<std::string> pairsOf(const KernelName &name) {
  std::set<std::string> pairs;
  for (const std::string &a : wordsOf(name))
    for (const std::string &b : wordsOf(name))
      if (a < b)
        pairs.insert(a + " with " + b);
  return pairs;
}

/// Every kernel of the axes that the chip serves.
std::vector<KernelName> everyLegalName() {
  std::vector<KernelName> names;
  for (int dim : {64, 96, 128, 256})
    for (int group : {32, 64, 128, dim})
      for (int bits = 0; bits < 9; ++bits)
        for (ParameterForm form : {ParameterForm::min, ParameterForm::zero, ParameterForm::sym})
          for (ElementType element : {ElementType::f16, ElementType::f32})
            for (int rows : {4, 8, 12, 16})
              for (ElementType io : {ElementType::f16, ElementType::bf16}) {
                KernelName name;
                name.chip = chip().name, name.rows = rows, name.io = io;
                name.key = name.value = {dim, 2 << bits % 3, group, form, element};
                name.value.bits = 2 << bits / 3;
                if (unsupportedInstance(name, chip()).empty())
                  names.push_back(name);
              }
  return names;
}

TEST(Instances, TheFileIsTheList) {
  std::ifstream file(KVQ_INSTANCES);
  std::string text, line;
  while (std::getline(file, line))
    if (!line.empty() && line[0] != '#')
      text += line + "\n";
  EXPECT_EQ(text, instancesText(list())) << "write it anew: kvq-compile --instances";
}

TEST(Instances, EveryPairIsCovered) {
  EXPECT_LE(list().size(), 40u);
  std::set<std::string> covered;
  for (const KernelName &name : list())
    covered.merge(pairsOf(name));
  std::set<std::string> missing;
  for (const KernelName &name : everyLegalName())
    for (const std::string &pair : pairsOf(name))
      if (!covered.count(pair))
        missing.insert(pair);
  EXPECT_EQ(missing, std::set<std::string>());
}

TEST(Instances, EveryKernelIsServedOnce) {
  std::set<std::string> seen;
  for (const KernelName &name : list()) {
    EXPECT_EQ(unsupportedInstance(name, chip()), "") << printKernelName(name);
    EXPECT_TRUE(seen.insert(printKernelName(name)).second) << printKernelName(name);
  }
}

TEST(Instances, TheTraceAndTheFirstSliceAreOnIt) {
  const std::string text = instancesText(list());
  for (const char *name :
       {"decode_sm90a_d64_k2v2_g64_min_f16_r4_bf16", "decode_sm90a_d128_k2v2_g128_min_f16_r4_bf16",
        "decode_sm90a_d128_k4v4_g128_min_f16_r4_bf16"})
    EXPECT_NE(text.find(name), std::string::npos) << name;
}

TEST(Instances, RandomOnesAreOthers) {
  const std::vector<KernelName> names = randomInstances(chip(), 20, 1);
  ASSERT_EQ(names.size(), 20u);
  EXPECT_EQ(instancesText(names), instancesText(randomInstances(chip(), 20, 1)));
  EXPECT_NE(instancesText(names), instancesText(randomInstances(chip(), 20, 2)));
  std::set<std::string> seen;
  for (const KernelName &name : list())
    seen.insert(printKernelName(name));
  for (const KernelName &name : names) {
    EXPECT_EQ(unsupportedInstance(name, chip()), "");
    EXPECT_TRUE(seen.insert(printKernelName(name)).second) << printKernelName(name);
  }
}

} // namespace

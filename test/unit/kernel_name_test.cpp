// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of GPU kernels: printed and parsed, from a method and back to one.
#include "codegen/artifact/KernelName.h"
#include "codegen/target/PtxDigest.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir::kvq;
using ::kvq::CacheMethod;
using ::kvq::ElementType;
using ::kvq::KernelRole;
using ::kvq::ParameterForm;

namespace {

constexpr const char *kFirst = "decode_sm90a_d128_k2v2_g128_min_f16_r4_bf16";

template <typename T> T anyOf(std::mt19937 &random, std::initializer_list<T> all) {
  return all.begin()[random() % all.size()];
}

KernelSide randomSide(std::mt19937 &random) {
  return {int(1 + random() % 600), int(1 + random() % 8), int(1 + random() % 600),
          anyOf(random,
                {ParameterForm::min, ParameterForm::zero, ParameterForm::sym, ParameterForm::norm}),
          anyOf(random, {ElementType::f16, ElementType::bf16, ElementType::f32})};
}

KernelName randomName(std::mt19937 &random) {
  KernelName name;
  name.role = anyOf(random, {KernelRole::append, KernelRole::plan, KernelRole::prepare,
                             KernelRole::decode, KernelRole::append_window, KernelRole::demote,
                             KernelRole::commit, KernelRole::dequantize});
  name.chip = anyOf<const char *>(random, {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"});
  name.key = randomSide(random);
  name.value = random() % 2 ? name.key : randomSide(random);
  name.rows = anyOf(random, {4, 8, 12, 16});
  name.io = anyOf(random, {ElementType::f16, ElementType::bf16, ElementType::f32});
  if (random() % 2)
    for (int i = 0; i < 8; ++i)
      name.rest += "0123456789abcdef"[random() % 16];
  return name;
}

/// One small change of a text.
std::string mutated(std::string text, std::mt19937 &random) {
  const size_t at = random() % text.size();
  const char other = "_xdkvgqr0123456789abcdef "[random() % 25];
  switch (random() % 5) {
  case 0:
    return text.erase(at, 1);
  case 1:
    return text.insert(at, 1, text[at]);
  case 2:
    std::swap(text[at], text[random() % text.size()]);
    return text;
  case 3:
    text[at] = other;
    return text;
  default:
    return text.insert(at, 1, other);
  }
}

std::string errorOf(const std::string &text) {
  KernelName name;
  return parseKernelName(text, name);
}

CacheMethod methodNamed(const std::string &text) {
  KernelName name;
  EXPECT_EQ(parseKernelName(text, name), "");
  return methodOf(name);
}

std::string nameOf(const CacheMethod &method) {
  return printKernelName(kernelNameOf(method, KernelRole::decode, "sm_90a"));
}

TEST(KernelName, RoundTrip) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const KernelName name = randomName(random);
    KernelName parsed;
    ASSERT_EQ(parseKernelName(printKernelName(name), parsed), "");
    ASSERT_TRUE(parsed == name) << printKernelName(name);
  }
}

/// A changed name is refused, or it is the name of another kernel; never a second spelling.
TEST(KernelName, MutatedNames) {
  std::mt19937 random(2);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const KernelName name = randomName(random);
    const std::string text = mutated(printKernelName(name), random);
    KernelName parsed = name;
    const std::string error = parseKernelName(text, parsed);
    if (error.empty()) {
      ASSERT_EQ(printKernelName(parsed), text);
      ASSERT_EQ(parsed == name, text == printKernelName(name)) << text;
      continue;
    }
    ++refused;
    ASSERT_NE(error.find("kernel name '" + text + "': expected "), std::string::npos) << error;
    ASSERT_TRUE(parsed == name) << "a refused name left something behind: " << text;
  }
  EXPECT_GT(refused, 10000);
}

TEST(KernelName, Refusals) {
  for (auto [text, expected] : std::initializer_list<std::pair<const char *, const char *>>{
           {"", "9 or 10 fields between '_', got '1'"},
           {"decode_sm90a_d128_k2v2_g128_min_f16_r4", "got '8'"},
           {"merge_sm90a_d128_k2v2_g128_min_f16_r4_bf16", "a role of append, plan, prepare"},
           {"decode_sm_90a_d128_k2v2_g128_min_f16_r4_bf16", "a chip of sm_80, "},
           {"decode_sm90_d128_k2v2_g128_min_f16_r4_bf16", "got 'sm90'"},
           {"decode_sm90a_d0128_k2v2_g128_min_f16_r4_bf16", "'d' and a number"},
           {"decode_sm90a_d128x128_k2v2_g128_min_f16_r4_bf16", "the short spelling decode_"},
           {"decode_sm90a_d128_k2_g128_min_f16_r4_bf16", "the bits of K and V"},
           {"decode_sm90a_d128_k2v2_ghead_min_f16_r4_bf16", "'g' and a number"},
           {"decode_sm90a_d128_k2v2_g128_avg_f16_r4_bf16", "min, zero, sym or norm, got 'avg'"},
           {"decode_sm90a_d128_k2v2_g128_min_i8_r4_bf16", "f16, bf16 or f32, got 'i8'"},
           {"decode_sm90a_d128_k2v2_g128_min_f16_r5_bf16", "r4, r8, r12 or r16, got '5'"},
           {"decode_sm90a_d128_k2v2_g128_min_f16_q4_bf16", "r4, r8, r12 or r16, got 'q4'"},
           {"decode_sm90a_d128_k2v2_g128_min_f16_r4_bf16_x123", "8 hexadecimal digits"}})
    EXPECT_NE(errorOf(text).find(expected), std::string::npos) << errorOf(text);
}

TEST(KernelName, OfAMethodAndBack) {
  for (const char *text : {kFirst, "decode_sm90a_d64_k2v2_g64_min_f16_r4_bf16",
                           "decode_sm90a_d96x64_k8v4_g32_zeroxsym_f32xbf16_r12_f16"})
    EXPECT_EQ(nameOf(methodNamed(text)), text);
  const CacheMethod method = methodNamed(kFirst);
  EXPECT_EQ(method.name, kFirst);
  EXPECT_EQ(method.q_heads, 4 * method.kv_heads);
  EXPECT_EQ(method.key.record.group, 0);
  EXPECT_EQ(::kvq::verifyMethod(method), "");
}

TEST(KernelName, WhatNoKernelDependsOnIsNotInIt) {
  CacheMethod method = methodNamed(kFirst);
  method.name = "other", method.layers = 36, method.page = 128;
  method.q_heads = 32, method.kv_heads = 8, method.key.record.group = 128;
  EXPECT_EQ(nameOf(method), kFirst);
}

TEST(KernelName, TheRestTellsMethodsApart) {
  std::vector<std::string> names = {kFirst};
  auto add = [&](void (*change)(CacheMethod &)) {
    CacheMethod method = methodNamed(kFirst);
    change(method);
    names.push_back(nameOf(method));
    EXPECT_EQ(names.back().substr(0, names.back().size() - 8), std::string(kFirst) + "_x");
    EXPECT_EQ(errorOf(names.back()), "");
  };
  add([](CacheMethod &method) { method.attention.scale = 1; });
  add([](CacheMethod &method) { method.value.rows = ElementType::f16; });
  add([](CacheMethod &method) { method.key.round.tie = ::kvq::RoundRule::Tie::half_even; });
  add([](CacheMethod &method) { method.key.steps.push_back({::kvq::Step::Kind::clip}); });
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(names[i], names[j]);
}

TEST(PtxDigest, CommentsConstantsAndSpaceDoNotCount) {
  EXPECT_EQ(strippedPtx("//\n// a\n.b /* x\n = {} */ c;\t.d e[2]  =\n{1, 2};f = {3} g/h"),
            ".b c; .d e[2] = {};f = {} g/h");
  EXPECT_EQ(strippedPtx("a // {\nmov {%r1, %r2}, %r3; /* open"), "a mov {%r1, %r2}, %r3; /* open");
  EXPECT_EQ(ptxDigest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_NE(ptxDigest("mov.u32 %r1, 1;"), ptxDigest("mov.u32 %r1, 2;"));
}

} // namespace

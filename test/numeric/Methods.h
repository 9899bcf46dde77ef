// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random methods and data for the numeric suite. Everything follows from a seed.
#pragma once

#include "runtime/format/method.h"

#include <random>
#include <string>
#include <vector>

namespace kvq::test {

/// A method with the constants it names, f32.
struct MethodCase {
  CacheMethod method;
  std::vector<float> constants;
  std::string text; ///< what was drawn, for messages
};

/// One line that says what the axes of a method are.
std::string describe(const CacheMethod &method);

/// A method of one geometry without steps: 2-bit min, groups of the head, bf16 rows.
MethodCase plainMethod(int keyDim, int valueDim, int queriesPerHead);

/// Adds a center step with random means.
void addCenter(MethodCase &c, bool key, ElementType result, std::mt19937_64 &random);
enum class Rotation { hadamard, blockHadamard, dense, inverseDense, product };
/// Adds a rotate step; dense factors are random orthogonal matrices.
void addRotation(MethodCase &c, bool key, Rotation rotation, ElementType result,
                 std::mt19937_64 &random);
void addClip(MethodCase &c, bool key, Step::Clip clip, double value, bool perGroup);

/// Draws every axis that the CPU target serves.
MethodCase randomMethod(uint64_t seed);

/// 8 bits on both sides, on the key and on the value, in every form.
std::vector<MethodCase> eightBitMethods();

enum class Data { random, heavyTailed, dominant };
/// K rows, V rows and queries of `tokens` tokens: standard normal; Student's t with 3 degrees of
/// freedom; or one token whose key points along the queries, far above a flat tail. V has mean 1.5
/// in all of them.
struct Inputs {
  std::vector<float> k, v, q;
};
Inputs makeInputs(const CacheMethod &method, int64_t tokens, int64_t batch, Data data,
                  uint64_t seed);

} // namespace kvq::test

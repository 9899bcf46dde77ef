// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The JSON text of a method: what is written comes back, and nothing else is let in.
#include "runtime/format/method.h"

#include "test/support/Records.h"
#include "test/support/TestMethods.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvq::test {
namespace {

/// Every kind of step, factor and choice at least once.
CacheMethod fullMethod() {
  SideMethod key = plainSide(side(128, 2, 32, ParameterForm::zero, ElementType::bf16));
  SideMethod value = plainSide(side(96, 4, 0, ParameterForm::sym));
  key.rows = ElementType::bf16;
  key.round = {RoundRule::Tie::half_even, RoundRule::Source::exact};
  TestMethod out(key, value, /*kvHeads=*/2, /*layers=*/3);
  const int mean = out.addMean(128, 1), rotation = out.addRotation(128, 2);
  const int valueRotation = out.addRotation(96, 3);
  out.method.key.steps = {
      centerStep(mean, ElementType::bf16),
      rotateStep({denseFactor(rotation, true), hadamardFactor(128)}, ElementType::f16),
      clipStep(Step::Clip::order_statistic, 0.96, true)};
  out.method.value.steps = {rotateStep({hadamardFactor(32, true), denseFactor(valueRotation)}),
                            clipStep(Step::Clip::ratio, 0.1),
                            clipStep(Step::Clip::constant, 1e-30)};
  out.method.attention.scale = 0.1f;
  out.method.attention.causal = false;
  out.method.attention.rotate_query = false;
  out.method.attention.rows = ElementType::f16;
  return out.method;
}

void addSinks(CacheMethod &method, const std::vector<int64_t> &shape) {
  method.attention.sinks = int(method.constants.size());
  method.constants.push_back({"sinks", shape, int64_t(1) << 30});
}

std::string textWith(const std::string &from, const std::string &to) {
  std::string text = methodText(fullMethod());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string errorOf(const std::string &text) {
  CacheMethod method;
  return parseMethod(text, method);
}

std::string errorWith(const std::string &from, const std::string &to) {
  return errorOf(textWith(from, to));
}

std::string errorWith(void (*change)(CacheMethod &)) {
  CacheMethod method = fullMethod();
  change(method);
  const std::string error = verifyMethod(method);
  EXPECT_EQ(errorOf(methodText(method)), error) << "reader and verifier disagree";
  return error;
}

TEST(Method, ComesBackUnchanged) {
  const CacheMethod method = fullMethod();
  ASSERT_EQ(verifyMethod(method), "");
  CacheMethod back;
  ASSERT_EQ(parseMethod(methodText(method), back), "");
  EXPECT_EQ(methodText(back), methodText(method));
  EXPECT_EQ(back.attention.scale, 0.1f);
  EXPECT_EQ(back.attention.rotate_query, false);
  EXPECT_EQ(back.attention.unrotate_output, true);
  EXPECT_EQ(back.layers, 3);
  EXPECT_EQ(back.key.record.group, 32);
  EXPECT_EQ(back.key.record.form, ParameterForm::zero);
  EXPECT_EQ(back.key.round.source, RoundRule::Source::exact);
  EXPECT_EQ(back.key.steps[1].factors[0].inverse, true);
  EXPECT_EQ(back.key.steps[2].value, 0.96);
  EXPECT_EQ(back.key.steps[2].per_group, true);
  EXPECT_EQ(back.value.steps[0].factors[0].kind, RotationFactor::Kind::block_hadamard);
  EXPECT_EQ(back.value.steps[2].clip, Step::Clip::constant);
  EXPECT_EQ(back.constants[1].shape, (std::vector<int64_t>{3, 2, 128, 128}));
  EXPECT_EQ(back.record().v.dim, 96);
}

TEST(Method, EveryFieldIsWritten) {
  // A field that the text forgot would come back as its default.
  const std::string text = methodText(fullMethod());
  void (*const changes[])(CacheMethod &) = {
      [](CacheMethod &m) { m.name += "x"; },
      [](CacheMethod &m) { m.q_heads = 6; },
      [](CacheMethod &m) { m.page = 32; },
      [](CacheMethod &m) { m.key.record.bits = 3; },
      [](CacheMethod &m) { m.key.record.element = ElementType::f32; },
      [](CacheMethod &m) { m.key.record.packing = CodePacking::nibble; },
      [](CacheMethod &m) { m.key.record.outer = OuterScale::token; },
      [](CacheMethod &m) { m.value.record.axis = ParameterAxis::channel; },
      [](CacheMethod &m) { m.key.rows = ElementType::f16; },
      [](CacheMethod &m) { m.key.round.tie = RoundRule::Tie::half_up; },
      [](CacheMethod &m) { m.key.steps[0].result = ElementType::f32; },
      [](CacheMethod &m) { m.key.steps.pop_back(); },
      [](CacheMethod &m) { m.key.steps[1].factors[0].inverse = false; },
      [](CacheMethod &m) { m.value.steps[0].factors[0].order = 16; },
      [](CacheMethod &m) { m.attention.causal = true; },
      [](CacheMethod &m) { m.attention.unrotate_output = false; },
      [](CacheMethod &m) { m.attention.scale = std::nextafter(0.1f, 1.0f); },
      [](CacheMethod &m) { m.constants[2].name += "x"; },
      [](CacheMethod &m) { m.constants[2].offset += 64; },
      [](CacheMethod &m) { m.sink = 4; },
      [](CacheMethod &m) { m.recent = 32; },
      [](CacheMethod &m) { m.attention.softcap = 0.1f; },
      [](CacheMethod &m) { m.attention.window = 1; },
      [](CacheMethod &m) { addSinks(m, {3, 4, 1}); },
      [](CacheMethod &m) { addSinks(m, {1, 4, 1}); },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    CacheMethod method = fullMethod(), back;
    changes[i](method);
    EXPECT_NE(methodText(method), text) << "change " << i;
    ASSERT_EQ(parseMethod(methodText(method), back), "") << "change " << i;
    EXPECT_EQ(methodText(back), methodText(method)) << "change " << i;
  }
}

TEST(Method, TextErrorsAreReadable) {
  EXPECT_EQ(errorOf(""), "expected the JSON text of a method, got an error at byte 1");
  EXPECT_EQ(errorOf("[1]"), "the text: expected an object, got an array");
  EXPECT_EQ(errorOf("{}"), "the text: expected the key 'schema', got none");
  EXPECT_EQ(errorWith("\"schema\": 0", "\"schema\": 1"), "schema: expected 0, got 1");
  EXPECT_EQ(errorWith("\"layers\": 3", "\"layers\": \"3\""),
            "layers: expected an integer of 32 bits, got \"3\"");
  EXPECT_EQ(errorWith("\"layers\": 3", "\"layers\": 4294967299"),
            "layers: expected an integer of 32 bits, got 4294967299");
  EXPECT_EQ(errorWith("\"layers\": 3", "\"layers\": 18446744073709551615"),
            "layers: expected an integer of 32 bits, got 18446744073709551615");
  EXPECT_EQ(errorWith("\"layers\": 3", "\"layers\": 3.5"),
            "layers: expected an integer of 32 bits, got 3.5");
  EXPECT_EQ(errorWith("\"layers\": 3,", ""), "the text: expected the key 'layers', got none");
  EXPECT_EQ(errorWith("\"layers\": 3", "\"layers\": 3, \"depth\": 1"),
            "the text: expected known keys, got 'depth'");
  EXPECT_EQ(errorWith("\"form\": \"zero\"", "\"form\": \"max\""),
            "key.form: expected min, zero, sym or norm, got \"max\"");
  EXPECT_EQ(errorWith("\"tie\": \"half_even\"", "\"tie\": 1"),
            "key.tie: expected half_up or half_even, got 1");
  EXPECT_EQ(errorWith("\"inverse\": true", "\"inverse\": 1"),
            "key.steps[1].factors[0].inverse: expected true or false, got 1");
  EXPECT_EQ(errorWith("\"value\": 0.96", "\"value\": null"),
            "key.steps[2].value: expected a number, got null");
  EXPECT_EQ(errorWith("\"step\": \"clip\"", "\"step\": {\"a\": 1}"),
            "key.steps[2].step: expected center, rotate or clip, got an object");
  EXPECT_EQ(errorWith("\"name\": \"test\"", "\"name\": 7"), "name: expected a string, got 7");
}

TEST(Method, RangesAreChecked) {
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.q_heads = 3; }),
            "q_heads: expected a multiple of 2 (kv_heads), got 3");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.kv_heads = 0; }),
            "kv_heads: expected 1 to 65536, got 0");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.layers = -3; }),
            "layers: expected 1 to 65536, got -3");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.sink = -1; }), "sink: expected 0 to 65536, got -1");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.attention.window = -1; }),
            "attention.window: expected 0 to 2147483647, got -1");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.attention.softcap = -1; }),
            "attention.softcap: expected 0 or a finite number above it, got -1.000000");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.page = 40; }),
            "expected a page that is a multiple of 16 tokens, got 40");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.key.record.dim = -128; }),
            "key: expected a head dim of 1 to 576, got -128");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.name = "a b"; }),
            "name: expected letters, digits, '_', '.', '$' and '-', got byte 32 at position 1");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.name = ""; }),
            "name: expected a name of 1 to 200 characters, got 0");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.key.steps[2].value = 0; }),
            "key.steps[2].value: expected a ratio above 0, at most 1, got 0.000000");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.key.steps[2].value = 1.5; }),
            "key.steps[2].value: expected a ratio above 0, at most 1, got 1.500000");
  EXPECT_EQ(errorWith([](CacheMethod &m) { std::swap(m.key.steps[1], m.key.steps[2]); }),
            "key.steps[2]: expected clips after all other steps, got a clip before it");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.value.steps[0].factors.clear(); }),
            "value.steps[0].factors: expected at least one factor, got none");
}

TEST(Method, ConstantsAreChecked) {
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.key.steps[0].constant = 3; }),
            "key.steps[0].mean: expected an index of the 3 constants, got 3");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.key.steps[0].constant = -1; }),
            "key.steps[0].mean: expected an index of the 3 constants, got -1");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.key.steps[0].constant = 1; }),
            "key.steps[0].mean: expected a constant of shape [3, 2, 128], "
            "got [3, 2, 128, 128] of rotation2");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.key.steps[1].factors[0].constant = 2; }),
            "key.steps[1].factors[0].constant: expected a constant of shape [3, 2, 128, 128], "
            "got [3, 2, 96, 96] of rotation3");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.attention.sinks = 3; }),
            "attention.sinks: expected an index of the 3 constants, got 3");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.attention.sinks = -2; }),
            "attention.sinks: expected an index of the 3 constants, got -2");
  EXPECT_EQ(errorWith([](CacheMethod &m) { addSinks(m, {3, 2, 1}); }),
            "attention.sinks: expected a constant of shape [3, 4, 1] or [1, 4, 1], "
            "got [3, 2, 1] of sinks");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.key.steps[1].factors[1].order = 64; }),
            "key.steps[1].factors[1].order: expected 128 (the head dim), got 64");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.value.steps[0].factors[0].order = 24; }),
            "value.steps[0].factors[0].order: expected a power of two, got 24");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.value.steps[0].factors[0].order = 64; }),
            "value.steps[0].factors[0].order: expected a divisor of the head dim 96, got 64");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.constants[0].offset = 32; }),
            "constants[0].offset: expected a multiple of 64, got 32");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.constants[0].offset = -64; }),
            "constants[0].offset: expected 0 to 4611686018427387903, got -64");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.constants[0].shape = {1, 1, 1, 1, 1}; }),
            "constants[0].shape: expected at most 4 dims, got 5");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.constants[0].shape = {1, 0}; }),
            "constants[0].shape: expected 1 to 65536, got 0");
  EXPECT_EQ(errorWith([](CacheMethod &m) { m.constants[0].shape.assign(4, 65536); }),
            "constants[0].shape: expected at most 2^44 elements, got more");
}

TEST(Method, NumbersOfTheVerifier) {
  CacheMethod method = fullMethod();
  method.attention.scale = NAN;
  EXPECT_NE(verifyMethod(method), "");
  EXPECT_EQ(errorOf(methodText(method)), "attention.scale: expected a number, got null");
  method = fullMethod();
  method.value.steps[2].value = INFINITY;
  EXPECT_EQ(verifyMethod(method),
            "value.steps[2].value: expected a finite threshold above 0, got inf");
}

TEST(Method, RefusalLeavesTheResultAlone) {
  CacheMethod method;
  method.name = "before";
  EXPECT_NE(parseMethod(textWith("\"layers\": 3", "\"layers\": 0"), method), "");
  EXPECT_EQ(method.name, "before");
}

TEST(Method, EveryTruncationIsRefused) {
  const std::string text = methodText(fullMethod());
  for (size_t size = 0; size + 1 < text.size(); ++size)
    ASSERT_NE(errorOf(text.substr(0, size)), "") << "at byte " << size;
}

TEST(Method, DamagedTextNeverPassesUnverified) {
  const uint64_t seed = 20;
  Lcg random(seed);
  const std::string text = methodText(fullMethod());
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (int change = 0; change < 1 + round % 3; ++change)
      damaged[random.next() % damaged.size()] = "0123456789-\"{}[],.e\x80"[random.next() % 20];
    CacheMethod method;
    if (parseMethod(damaged, method).empty()) {
      ASSERT_EQ(verifyMethod(method), "") << "seed " << seed << ", round " << round;
    }
  }
}

} // namespace
} // namespace kvq::test

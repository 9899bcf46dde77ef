// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults that others reported of sliding windows, learned sinks and element types, each as a whole
// kind.
#include "test/numeric/CompiledLibrary.h"

#include <cmath>

namespace kvq::test {
namespace {

/// Fault: the mask of one row and head is that of another row, once the length is beyond the
/// window. Each row attends exactly its own position and the 1022 before it; every row and head is
/// checked alone.
TEST(WindowFaults, MaskOfEveryRowAndHead) {
  for (auto [qHeads, kvHeads, step] : {std::tuple(2, 1, 3), std::tuple(32, 16, 37)}) {
    const CompiledLibrary library({exactMethod(256, step == 3 ? 4 : 2, qHeads, kvHeads)});
    PoolShape shape;
    shape.pages = 69;
    PagedCache cache(library, shape);
    cache.append(makeInputs(cache.method(), 1100, 1, Data::random, 46), 0, 1100, pageRun(0, 69));
    Request request;
    request.qLength = 8, request.window = 1023;
    request.split = step == 3 ? 0 : 64;
    for (int32_t length = 1024; length <= 1100; length += step)
      request.lengths.push_back(length), request.pages.push_back(pageRun(0, (length + 15) / 16));
    DecodeCall call(cache, request);
    call.run();
    call.check();
  }
}

/// A method whose library holds a sink logit for each query head.
MethodCase withSinks(float logit) {
  MethodCase c = exactMethod(64, 4, 8, 2);
  c.constants.assign(8, logit);
  c.method.constants = {{"sinks", {1, 8, 1}, 0}};
  c.method.attention.sinks = 0;
  return c;
}

/// Fault: learned sinks are dropped on one path. They are in the denominator with splits and
/// without, in windows, for one query token and several, from the caller and from the library.
TEST(WindowFaults, LearnedSinksOnEveryPath) {
  const CompiledLibrary plain({exactMethod(64, 4, 8, 2)}), own({withSinks(5)});
  for (const CompiledLibrary *library : {&plain, &own}) {
    PoolShape shape;
    shape.pages = 19;
    PagedCache cache(*library, shape);
    cache.append(makeInputs(cache.method(), 300, 1, Data::random, 47), 0, 300, pageRun(0, 19));
    for (int64_t split : {0, 64})
      for (int64_t window : {0, 40})
        for (int64_t qLength : {1, 4}) {
          SCOPED_TRACE("split " + std::to_string(split) + " window " + std::to_string(window));
          Request request = {{pageRun(0, 19), pageRun(0, 19)}, {300, 9}};
          request.split = split, request.window = window, request.qLength = qLength;
          request.sinks.assign(8, 5);
          DecodeCall call(cache, request);
          if (library == &own)
            call.args.sinks = nullptr;
          call.run();
          call.check();
        }
  }
}

/// Fault: a factor is skipped on the path of one type of the queries. The same keys, of scale 0.5,
/// under queries of each type; types that the library does not have are refused by supports().
TEST(WindowFaults, EveryTypeOfQueriesSeesTheScales) {
  for (ElementType type : {ElementType::f16, ElementType::bf16, ElementType::f32})
    for (bool rotated : {false, true}) {
      SCOPED_TRACE(elementName(type));
      MethodCase c = exactMethod(64, 4, 4, 2);
      c.method.attention.rows = type;
      std::mt19937_64 random = drawnFrom(50);
      if (rotated)
        addRotation(c, true, Rotation::hadamard, ElementType::f32, random);
      const CompiledLibrary library({c});
      PagedCache cache(library, {});
      Inputs inputs = makeInputs(c.method, 100, 1, Data::random, 50);
      for (size_t i = 0; i < inputs.k.size(); ++i)
        inputs.k[i] = 0.5f * float((i * 7 + i / 64) % 16) - 3;
      cache.append(inputs, 0, 100, pageRun(0, 7));
      DecodeCall call(cache, {{pageRun(0, 7)}, {100}});
      call.run();
      call.check();
    }
}

} // namespace
} // namespace kvq::test

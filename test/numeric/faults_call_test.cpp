// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults that others reported of capabilities, workspaces and determinism, each as a whole kind.
#include "test/numeric/CompiledLibrary.h"
#include "test/unit/CountAllocations.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kvq::test {
namespace {

/// A cache of `tokens` tokens in pages 0, 1, ...
struct Filled {
  CompiledLibrary library;
  PagedCache cache;

  explicit Filled(const MethodCase &c, int64_t tokens)
      : library({c}), cache(library, shapeOf(tokens)) {
    cache.append(makeInputs(c.method, tokens, 1, Data::random, 1), 0, tokens,
                 pageRun(0, cache.shape.pages));
  }
  static PoolShape shapeOf(int64_t tokens) {
    PoolShape shape;
    shape.pages = (tokens + shape.page - 1) / shape.page;
    return shape;
  }
  static Request of(const std::vector<int32_t> &lengths, int64_t qLength = 1) {
    Request request;
    request.lengths = lengths, request.qLength = qLength;
    for (int32_t length : lengths)
      request.pages.push_back(pageRun(0, (length + 15) / 16));
    return request;
  }
};

/// Whether the library says that it can do what `change` asks for.
template <typename Change> bool says(kvq_library *library, Change change) {
  kvq_use use = {};
  use.size = sizeof use;
  change(use);
  return kvq_supports(library, &use, nullptr, 0, nullptr) == KVQ_OK;
}

/// Fault: a capability is declared that a call does not have. What supports() answers for each
/// number of query tokens and each kind of call is what the call gives.
TEST(CallFaults, CapabilitiesAreThoseOfTheCalls) {
  Filled filled(exactMethod(64, 4, 4, 2), 100);
  kvq_library *const library = filled.library.get();
  for (int32_t qLength = 1; qLength <= 20; ++qLength) {
    const bool served = says(library, [&](kvq_use &use) { use.q_length = qLength; });
    EXPECT_EQ(served, qLength <= KVQ_MAX_Q_LENGTH);
    DecodeCall call(filled.cache, Filled::of({100, 40}, std::min(qLength, KVQ_MAX_Q_LENGTH)));
    if (served)
      call.run();
    size_t bytes = 0;
    call.args.q_length = qLength;
    EXPECT_EQ(kvq_workspace_size(library, &call.args, &bytes),
              served ? KVQ_OK : KVQ_INVALID_ARGUMENT);
    EXPECT_EQ(kvq_decode(library, &call.args), served ? KVQ_OK : KVQ_INVALID_ARGUMENT);
    EXPECT_FALSE(says(library, [&](kvq_use &use) {
      use.q_length = qLength, use.flags = KVQ_USE_CAPTURE; // a CPU has no graphs
    }));
  }
  EXPECT_FALSE(says(library, [](kvq_use &use) { use.flags = KVQ_USE_DEMOTE; }));
  std::vector<int32_t> numbers(2, 0);
  kvq_commit_args commit = {};
  commit.size = sizeof commit, commit.batch = 1, commit.step = 1;
  commit.lengths = commit.from = numbers.data(), commit.to = numbers.data() + 1;
  EXPECT_EQ(kvq_commit(library, &commit), KVQ_UNSUPPORTED);
  EXPECT_TRUE(says(library, [](kvq_use &use) { use.flags = KVQ_USE_DEQUANTIZE; }));
  alignas(16) float rows[2][2][64] = {};
  const int64_t slot = 0;
  kvq_token_args args = {};
  args.size = sizeof args, args.tokens = 1, args.slots = &slot;
  args.k = rows[0], args.v = rows[1];
  args.k_head_stride = args.v_head_stride = 256, args.k_token_stride = args.v_token_stride = 512;
  args.pool = filled.cache.pool, args.place = filled.cache.place;
  EXPECT_EQ(kvq_dequantize(library, &args), KVQ_OK) << kvq_last_error();
  for (kvq_element element = KVQ_F16; element <= 4; ++element)
    EXPECT_EQ(says(library, [&](kvq_use &use) { use.query_rows = element; }), element == KVQ_F32);
}

/// Fault: a workspace is sized for the first calls and too small for a later one. That of the
/// largest call serves 200 smaller ones with the same bits, and nothing behind it is written.
TEST(CallFaults, WorkspaceOfTheLargestCallServesAll) {
  Filled filled(exactMethod(64, 2, 8, 2), 700);
  DecodeCall largest(filled.cache, Filled::of(std::vector<int32_t>(6, 700), KVQ_MAX_Q_LENGTH));
  largest.args.split_tokens = 64;
  size_t bytes = 0;
  ASSERT_EQ(kvq_workspace_size(filled.library.get(), &largest.args, &bytes), KVQ_OK);
  std::vector<uint8_t> memory(bytes + 64 + 4096, 0x5a);
  uint8_t *const start = memory.data() + -reinterpret_cast<uintptr_t>(memory.data()) % 64;
  std::mt19937_64 random = drawnFrom(39);
  for (int i = 0; i < 200; ++i) {
    std::vector<int32_t> lengths(1 + random() % 6);
    for (int32_t &length : lengths)
      length = int32_t(random() % 701);
    Request request = Filled::of(lengths, 1 + int64_t(random() % KVQ_MAX_Q_LENGTH));
    request.split = 64 << random() % 3;
    DecodeCall call(filled.cache, request), expected(filled.cache, request);
    expected.run();
    call.args.workspace = start, call.args.workspace_bytes = bytes;
    ASSERT_EQ(kvq_decode(filled.library.get(), &call.args), KVQ_OK) << kvq_last_error();
    ASSERT_TRUE(call == expected) << "call " << i;
    ASSERT_EQ(std::count(start + bytes, start + bytes + 4096, 0x5a), 4096) << "call " << i;
  }
}

/// Fault: the bits of an output change with a bound that the host gives.
TEST(CallFaults, BoundsDoNotChangeBits) {
  Filled filled(exactMethod(64, 4, 8, 2), 253);
  for (int64_t qLength : {1, 4}) {
    Request request = Filled::of({253, 1, 100, 252}, qLength);
    DecodeCall expected(filled.cache, request);
    expected.run();
    expected.check();
    for (int64_t bound : {254, 1024, 131'072, 2'000'000}) {
      request.bound = bound;
      for (std::vector<int32_t> &pages : request.pages)
        pages.resize(16 + size_t(bound % 50), INT32_MAX); // columns beyond the end are not read
      DecodeCall call(filled.cache, request);
      call.run();
      EXPECT_TRUE(call == expected) << "bound " << bound;
    }
  }
}

/// Wanted: a fixed size of splits gives a row the same bits whatever else is in the batch, in which
/// order, and whatever bound the batch has.
TEST(CallFaults, FixedSplitsDoNotKnowTheBatch) {
  Filled filled(exactMethod(64, 2, 8, 2), 3000);
  const std::vector<int32_t> lengths = {3000, 511, 512, 513, 0, 1025, 2, 1500};
  for (int64_t split : {512, 2048}) {
    Request all = Filled::of(lengths);
    all.split = split;
    DecodeCall together(filled.cache, all);
    together.run();
    const size_t queries = 8 * 64;
    for (size_t i = 0; i < lengths.size(); ++i)
      for (size_t company : {size_t(0), size_t(1), size_t(3)}) {
        Request mixed = Filled::of({});
        for (size_t j = 0; j <= company; ++j) // the sequence comes last
          mixed.lengths.push_back(lengths[(i + company - j) % lengths.size()]);
        mixed = Filled::of(mixed.lengths);
        mixed.split = split, mixed.bound = company ? 131'072 : 0;
        DecodeCall call(filled.cache, mixed);
        std::copy_n(&together.q[i * queries], queries, &call.q[company * queries]);
        call.run();
        EXPECT_TRUE(sameBits(&call.out[company * queries], &together.out[i * queries], queries))
            << "sequence " << i << " with " << company << " others, splits of " << split;
      }
  }
}

/// Fault: a call takes memory that nobody accounts for.
TEST(CallFaults, CallsAllocateNothing) {
  MethodCase c = exactMethod(64, 2, 4, 2);
  Filled filled(c, 200);
  kvq_library *const library = filled.library.get();
  DecodeCall call(filled.cache, Filled::of({200, 77}, 4));
  call.run(); // starts the threads of the library
  std::vector<float> k(2 * 64), v(2 * 64);
  const int64_t slot = 3;
  kvq_token_args token = {};
  token.size = sizeof token, token.tokens = 1, token.slots = &slot;
  token.k = k.data(), token.v = v.data();
  token.k_head_stride = token.v_head_stride = 256,
  token.k_token_stride = token.v_token_stride = 512;
  token.pool = filled.cache.pool, token.place = filled.cache.place;
  const int before = allocationCount();
  EXPECT_EQ(kvq_append(library, &token), KVQ_OK);
  EXPECT_EQ(kvq_dequantize(library, &token), KVQ_OK);
  EXPECT_EQ(kvq_plan(library, &call.args), KVQ_OK);
  EXPECT_EQ(kvq_decode(library, &call.args), KVQ_OK);
  EXPECT_EQ(allocationCount(), before);
}

/// Fault: memory for all scores of many queries over a long context. There is no prefill: more
/// query tokens are refused, and a workspace is far below one number for each score.
TEST(CallFaults, WorkspaceHoldsNoScores) {
  const CompiledLibrary library({exactMethod(128, 4, 32, 8)});
  kvq_decode_args args = {};
  args.size = sizeof args;
  args.batch = 1, args.q_length = 8192, args.max_length = 65'536;
  size_t bytes = 0;
  EXPECT_EQ(kvq_workspace_size(library.get(), &args, &bytes), KVQ_INVALID_ARGUMENT);
  EXPECT_STREQ(kvq_last_error(), "q_length: expected 0 to 16, got 8192");
  args.q_length = KVQ_MAX_Q_LENGTH;
  ASSERT_EQ(kvq_workspace_size(library.get(), &args, &bytes), KVQ_OK);
  EXPECT_LT(bytes, size_t(16) * 32 * 65'536 * 4 / 4);
  EXPECT_LT(bytes, size_t(256) << 20);
}

} // namespace
} // namespace kvq::test

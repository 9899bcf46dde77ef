// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults that others reported of lengths, padding rows and stale memory, each as a whole kind.
#include "test/numeric/CompiledLibrary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace kvq::test {
namespace {

/// Rows of NaN and infinities, as padding of a batch may be.
Inputs undefinedRows(const CacheMethod &method, int64_t tokens) {
  Inputs inputs = makeInputs(method, tokens, 1, Data::random, 1);
  for (std::vector<float> *rows : {&inputs.k, &inputs.v})
    for (size_t i = 0; i < rows->size(); ++i)
      (*rows)[i] = i % 3 ? std::nanf("") : std::numeric_limits<float>::infinity();
  return inputs;
}

bool allFinite(const float *row, int64_t count) {
  return std::all_of(row, row + count, [](float x) { return std::isfinite(x); });
}

/// Fault: sequences of length 0 beside long ones give NaN or keep what the buffers held.
TEST(LengthFaults, EmptySequencesBesideLongOnes) {
  for (int bits : {2, 4}) {
    const CompiledLibrary library({exactMethod(64, bits, 8, 2)});
    PoolShape shape;
    shape.pages = 256;
    PagedCache cache(library, shape);
    cache.append(makeInputs(cache.method(), 4096, 1, Data::random, 1), 0, 4096, pageRun(0, 256));
    Request request;
    request.lengths = {37, 1, 300, 0, 0, 0, 4096, 0};
    request.bound = 131'072;
    for (int32_t length : request.lengths)
      request.pages.push_back(pageRun(0, (length + 15) / 16));
    for (int64_t qLength : {1, 4}) {
      request.qLength = qLength;
      DecodeCall call(cache, request);
      call.run();
      call.check();
      const int64_t rows = qLength * 8;
      for (size_t i = 0; i < request.lengths.size(); ++i)
        for (int64_t r = int64_t(i) * rows; request.lengths[i] == 0 && r < int64_t(i + 1) * rows;
             ++r) {
          EXPECT_EQ(std::count(call.row(r), call.row(r) + 64, 0.0f), 64) << "sequence " << i;
          EXPECT_EQ(call.lse[size_t(r)], -INFINITY);
        }
    }
  }
}

/// Fault: rows that pad a batch have length 0 in one engine and 1 in another, and one of the two
/// gives NaN. Both are finite, and neither changes the bits of the other rows.
TEST(LengthFaults, PaddingRowsOfLength0AndOf1) {
  const CompiledLibrary library({exactMethod(64, 4, 8, 2)});
  PagedCache cache(library, {});
  // Page 0 was never written: a row of length 1 may point there all the same.
  cache.append(undefinedRows(cache.method(), 1), 0, 1, {0});
  cache.append(makeInputs(cache.method(), 80, 1, Data::random, 2), 0, 80, pageRun(1, 5));
  Request request = {{pageRun(1, 5), {0}, {0}}, {80, 0, 0}};
  DecodeCall zeros(cache, request);
  zeros.run();
  request.lengths = {80, 1, 1};
  DecodeCall ones(cache, request);
  ones.run();
  EXPECT_TRUE(sameBits(zeros.out.data(), ones.out.data(), 8 * 64));
  EXPECT_TRUE(sameBits(zeros.lse.data(), ones.lse.data(), 8));
  EXPECT_TRUE(allFinite(zeros.out.data(), int64_t(zeros.out.size())));
  EXPECT_TRUE(allFinite(ones.out.data(), int64_t(ones.out.size())));
  EXPECT_TRUE(allFinite(ones.lse.data(), int64_t(ones.lse.size())));
}

/// Fault: whole tiles are read, and what lies behind the last token, NaN perhaps, reaches the row.
TEST(LengthFaults, StaleBytesBehindTheEnd) {
  for (int bits : {2, 4, 8}) {
    const CompiledLibrary library({exactMethod(128, bits, 8, 2)});
    PoolShape shape;
    shape.pages = 16;
    PagedCache stale(library, shape);
    shape.fill = 0;
    PagedCache clean(library, shape);
    for (int32_t length : {1, 17, 127, 129, 255}) {
      std::memset(stale.pool.data, 0xff, size_t(stale.poolBytes));
      std::memset(clean.pool.data, 0, size_t(clean.poolBytes));
      const Inputs inputs = makeInputs(stale.method(), length, 1, Data::random, 3);
      stale.append(inputs, 0, length, pageRun(0, 16));
      clean.append(inputs, 0, length, pageRun(0, 16));
      for (int64_t split : {0, 64}) {
        Request request = {{pageRun(0, (length + 15) / 16)}, {length}};
        request.split = split;
        request.qLength = length > 4 ? 4 : 1;
        DecodeCall got(stale, request), expected(clean, request);
        got.run();
        expected.run();
        EXPECT_TRUE(got == expected) << bits << " bits, length " << length;
        expected.check();
      }
    }
  }
}

/// Fault: a dummy run whose slots are all -1 writes its rows, NaN, somewhere all the same.
TEST(LengthFaults, SlotsOfMinusOneWriteNothing) {
  const CompiledLibrary library({exactMethod(64, 4, 4, 2)});
  PagedCache cache(library, {});
  cache.append(makeInputs(cache.method(), 100, 1, Data::random, 4), 0, 100, pageRun(0, 7));
  const std::vector<uint8_t> before = cache.bytes();
  const Inputs rows = undefinedRows(cache.method(), 70);
  for (uint32_t flags : {0u, KVQ_SLOTS_32, KVQ_RESERVED_SLOT})
    for (int64_t slot : {int64_t(-1), int64_t(-128), int64_t(INT32_MIN)})
      EXPECT_EQ(cache.appendAt(rows, std::vector<int64_t>(70, slot), flags), KVQ_OK);
  EXPECT_EQ(cache.bytes(), before);
}

/// Fault: padding rows all go to a reserved slot, and what they hold lands in a page that others
/// read. With KVQ_RESERVED_SLOT they are dropped, whatever the slot is; without it they are rows as
/// any other, and are stored as finite numbers.
TEST(LengthFaults, RowsOfTheReservedSlotAreDropped) {
  const CompiledLibrary library({exactMethod(64, 2, 4, 2)});
  const Inputs rows = undefinedRows(exactMethod(64, 2, 4, 2).method, 3);
  for (int64_t reserved : {0, 17, 127})
    for (uint32_t width : {0u, KVQ_SLOTS_32}) {
      PagedCache cache(library, {});
      cache.append(makeInputs(cache.method(), 128, 1, Data::random, 5), 0, 128, pageRun(0, 8));
      const std::vector<uint8_t> before = cache.bytes();
      const std::vector<int64_t> slots(3, reserved);
      ASSERT_EQ(cache.appendAt(rows, slots, width | KVQ_RESERVED_SLOT, reserved), KVQ_OK);
      EXPECT_EQ(cache.bytes(), before) << "slot " << reserved;
      ASSERT_EQ(cache.appendAt(rows, {reserved}, width | KVQ_RESERVED_SLOT, reserved + 1), KVQ_OK);
      EXPECT_NE(cache.bytes(), before) << "slot " << reserved;
      const std::vector<double> stored = cache.rows('k', 0, 128, pageRun(0, 8));
      for (int64_t i = reserved * 64; i < (reserved + 1) * 64; ++i)
        EXPECT_TRUE(std::isfinite(stored[size_t(i)]));
    }
}

/// Fault: a cache dies, or differs, where it grows over a power of two. Tokens one by one across
/// the border: the bytes of one call with all of them, and the bits of a decode at each step.
TEST(LengthFaults, GrowthOverPowersOfTwo) {
  for (int bits : {2, 4}) {
    const CompiledLibrary library({exactMethod(64, bits, 2, 1)});
    for (auto [from, to, page] : {std::tuple(255, 257, 16), std::tuple(4095, 4097, 16),
                                  std::tuple(4095, 4097, 256), std::tuple(8191, 8193, 64)}) {
      SCOPED_TRACE(std::to_string(bits) + " bits to " + std::to_string(to));
      PoolShape shape;
      shape.page = page, shape.pages = to / page + 1;
      const std::vector<int32_t> pages = pageRun(0, shape.pages);
      PagedCache grown(library, shape), whole(library, shape);
      const Inputs inputs = makeInputs(grown.method(), to, 1, Data::random, 6);
      whole.append(inputs, 0, to, pages);
      grown.append(inputs, 0, from, pages);
      for (int32_t length = from; length <= to; ++length) {
        if (length > from)
          grown.append(inputs, length - 1, 1, pages);
        DecodeCall got(grown, {{pageRun(0, (length + page - 1) / page)}, {length}});
        DecodeCall expected(whole, got.request);
        got.run();
        expected.run();
        EXPECT_TRUE(got == expected) << length;
        if (length == to)
          got.check();
      }
      EXPECT_EQ(grown.bytes(), whole.bytes());
    }
  }
}

} // namespace
} // namespace kvq::test

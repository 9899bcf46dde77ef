// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults that others reported of head dims, groups, ratios of heads and tensor parallelism, each as
// a whole kind.
#include "test/numeric/CompiledLibrary.h"

#include "runtime/reference/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kvq::test {
namespace {

/// A number that a page holds, decoded: the scale of a channel's group.
double scaleOf(const PagedCache &cache, char side, int64_t token, int64_t channel) {
  const uint32_t bits =
      getElement(cache.layout, cache.record(0, 0), side, FieldKind::scale, token, channel);
  return decodeElement(ElementType::f16, bits);
}

/// Fault: lanes without a channel enter the minimum or the maximum as 0 and widen the range. All
/// values lie in [low, low + 1], far from 0 on either side.
TEST(ShapeFaults, IdleLanesDoNotWidenTheRange) {
  for (int dim : {96, 160, 224})
    for (int bits : {2, 4}) {
      MethodCase c = exactMethod(dim, bits, 1, 1);
      c.method.value.record.group = dim % 64 ? 32 : 64;
      const CompiledLibrary library({c});
      PagedCache cache(library, {});
      for (float low : {5.0f, -6.0f}) {
        SCOPED_TRACE("dim " + std::to_string(dim) + " bits " + std::to_string(bits));
        Inputs inputs;
        for (int i = 0; i < 20 * dim; ++i) // both ends are in every group
          inputs.k.push_back(low + float(i * 7 % 32) / 31);
        inputs.v = inputs.k;
        cache.append(inputs, 0, 20, pageRun(0, 2));
        const double step = 1.0 / ((1 << bits) - 1);
        for (char side : {'k', 'v'}) {
          const std::vector<double> rows = cache.rows(side, 0, 20, pageRun(0, 2));
          for (int i = 0; i < 20 * dim; ++i)
            ASSERT_NEAR(rows[size_t(i)], inputs.k[size_t(i)], step / 2 + 0.005) << side << i;
          for (int channel = 0; channel < dim; channel += 32)
            ASSERT_NEAR(scaleOf(cache, side, 3, channel), step, step * 0x1p-10) << side;
        }
      }
    }
}

/// Fault: a head dim that the group does not divide crashes, or its last group takes in the next
/// head. The group is refused; with one that divides, a head's bytes do not know of other heads.
TEST(ShapeFaults, GroupsEndWithTheirHead) {
  MethodCase c = exactMethod(96, 4, 3, 3);
  c.method.key.record.group = c.method.value.record.group = 64;
  EXPECT_NE(verifyMethod(c.method).find("divides the head dim 96, got 64"), std::string::npos)
      << verifyMethod(c.method);
  c.method.key.record.group = c.method.value.record.group = 32;
  const CompiledLibrary library({c});
  PagedCache before(library, {}), after(library, {});
  Inputs inputs = makeInputs(c.method, 40, 1, Data::random, 1);
  before.append(inputs, 0, 40, pageRun(0, 3));
  for (size_t i = 0; i < inputs.k.size(); ++i) // heads 0 and 2, beyond the range of head 1
    if (i / 96 % 3 != 1)
      inputs.k[i] += 1000, inputs.v[i] -= 1000;
  after.append(inputs, 0, 40, pageRun(0, 3));
  for (int64_t page = 0; page < 3; ++page)
    for (int64_t head = 0; head < 3; ++head)
      EXPECT_EQ(std::memcmp(before.record(page, head), after.record(page, head),
                            size_t(before.layout.bytes)) == 0,
                head == 1);
}

/// Fault: where V is padded or narrower than K, its rows are counted with the number of the wrong
/// heads. A head dim of 80 is refused; the caller pads it with zeros.
TEST(ShapeFaults, ValuesOfAnotherWidthThanKeys) {
  for (auto [keyDim, valueDim] : {std::pair(96, 64), std::pair(64, 96), std::pair(96, 96)}) {
    MethodCase c = exactMethod(keyDim, 4, 24, 8);
    c.method.value.record.dim = valueDim;
    c.method.attention.scale = 1 / std::sqrt(80.0f);
    const CompiledLibrary library({c});
    PagedCache cache(library, {});
    Inputs inputs = makeInputs(c.method, 100, 1, Data::random, 2);
    if (keyDim == valueDim)
      for (size_t i = 0; i < inputs.k.size(); ++i)
        if (i % 96 >= 80)
          inputs.k[i] = inputs.v[i] = 0;
    cache.append(inputs, 0, 100, pageRun(0, 7));
    const std::vector<double> values = cache.rows('v', 5, 100, pageRun(0, 7));
    for (int64_t i = 0; i < 100 * valueDim; ++i) // half a step of a range of 9
      ASSERT_NEAR(values[size_t(i)],
                  inputs.v[size_t((i / valueDim * 8 + 5) * valueDim + i % valueDim)], 0.31);
    DecodeCall call(cache, {{pageRun(0, 7), pageRun(0, 7)}, {100, 33}});
    call.run();
    call.check();
  }
}

/// Two layers of one model: few wide heads, and many narrow ones; a rotation for each layer.
std::vector<MethodCase> twoGeometries() {
  MethodCase wide = exactMethod(512, 4, 16, 2), narrow = exactMethod(256, 4, 16, 8);
  std::mt19937_64 random = drawnFrom(3);
  for (MethodCase *c : {&wide, &narrow}) {
    c->method.key.record.group = c->method.value.record.group = 128;
    c->method.layers = c == &wide ? 1 : 2;
    addRotation(*c, true, c == &wide ? Rotation::hadamard : Rotation::dense, ElementType::f32,
                random);
  }
  return {wide, narrow};
}

/// Faults: layers of different geometry in one model read each other's cache; their pages are no
/// multiples of each other, so that no allocator serves both.
TEST(ShapeFaults, LayersOfTwoGeometriesShareAnAllocator) {
  const CompiledLibrary library(twoGeometries(), {{0, 0}, {1, 0}, {1, 1}});
  kvq_page_geometry pages[3] = {};
  for (int64_t layer = 0; layer < 3; ++layer) {
    pages[layer].size = sizeof pages[layer];
    ASSERT_EQ(kvq_query_page(library.get(), layer, 16, &pages[layer]), KVQ_OK);
    EXPECT_EQ(pages[layer].head_stride, pages[layer].record_bytes) << "padding";
  }
  EXPECT_EQ(pages[1].page_bytes, 2 * pages[0].page_bytes);
  EXPECT_EQ(pages[2].page_bytes, pages[1].page_bytes);
  // Pages of all layers in one stride: the largest.
  for (int64_t layer = 0; layer < 3; ++layer) {
    SCOPED_TRACE("layer " + std::to_string(layer));
    PoolShape shape;
    shape.layer = layer;
    shape.pagePadding = pages[1].page_bytes - pages[layer].page_bytes;
    PagedCache cache(library, shape);
    EXPECT_EQ(cache.pool.page_stride, pages[1].page_bytes);
    cache.append(makeInputs(cache.method(), 90, 1, Data::random, 4), 0, 90, pageRun(1, 6));
    DecodeCall call(cache, {{pageRun(1, 6), pageRun(1, 6)}, {90, 40}});
    call.run();
    call.check();
  }
}

/// Faults: ratios of heads that are no power of two are rejected, or rows of heads above 8 or 16
/// are mixed up. Libraries of the ratio; every query head is different and is checked alone.
TEST(ShapeFaults, RatiosOfTheLibrary) {
  for (auto [qHeads, kvHeads] : {std::pair(28, 4), std::pair(40, 8), std::pair(24, 4),
                                 std::pair(15, 3), std::pair(9, 1), std::pair(22, 2)}) {
    SCOPED_TRACE(std::to_string(qHeads) + "/" + std::to_string(kvHeads));
    const CompiledLibrary library({exactMethod(64, qHeads % 3 ? 2 : 4, qHeads, kvHeads)});
    PagedCache cache(library, {});
    cache.append(makeInputs(cache.method(), 100, 1, Data::random, 5), 0, 100, pageRun(0, 7));
    DecodeCall call(cache, {{pageRun(0, 7), pageRun(0, 7)}, {100, 19}});
    call.run();
    call.check();
  }
}

/// Fault: whether a ratio is served shows at the first decode step. What supports() says of a
/// number of query heads is what append and decode give, and what they give is right.
TEST(ShapeFaults, RatiosAreAnsweredBeforeACall) {
  const CompiledLibrary library({exactMethod(64, 2, 8, 2)});
  PagedCache cache(library, {});
  const Inputs inputs = makeInputs(cache.method(), 60, 1, Data::random, 6);
  for (int32_t qHeads :
       {-2, 1,  2,  3,  4,  5,  6,  8,  9,  10, 12, 14, 16, 18,  20,    22,    24,
        26, 28, 30, 31, 32, 34, 36, 40, 48, 62, 64, 96, 98, 128, 32766, 32768, 65536}) {
    SCOPED_TRACE(std::to_string(qHeads) + " query heads");
    kvq_use use = {};
    use.size = sizeof use, use.q_heads = qHeads;
    const bool served = kvq_supports(library.get(), &use, nullptr, 0, nullptr) == KVQ_OK;
    EXPECT_EQ(served, qHeads > 0 && qHeads % 2 == 0 && qHeads <= INT16_MAX) << kvq_last_error();
    cache.append(inputs, 0, 60, pageRun(0, 4));
    Request request = {{pageRun(0, 4)}, {60}};
    request.ratio = std::clamp(qHeads / 2, 1, 64);
    request.qLength = qHeads > 64 ? 1 : 3;
    DecodeCall call(cache, request);
    if (served && qHeads <= 128) {
      call.run();
      call.check();
      continue;
    }
    call.args.q_heads = qHeads;
    size_t bytes = 0;
    EXPECT_EQ(kvq_workspace_size(library.get(), &call.args, &bytes),
              served ? KVQ_OK : KVQ_INVALID_ARGUMENT);
  }
}

/// Fault: more ranks than KV heads. Each KV head lies on two ranks, which take its own rotation;
/// the ranks' outputs side by side are those of one.
TEST(ShapeFaults, MoreRanksThanKvHeads) {
  MethodCase c = exactMethod(64, 2, 16, 4);
  std::mt19937_64 random = drawnFrom(7);
  addRotation(c, true, Rotation::dense, ElementType::f32, random);
  addRotation(c, false, Rotation::dense, ElementType::f32, random);
  const CompiledLibrary library({c});
  const Inputs inputs = makeInputs(c.method, 100, 1, Data::random, 7);
  PagedCache whole(library, {});
  whole.append(inputs, 0, 100, pageRun(0, 7));
  const Request all = {{pageRun(0, 7)}, {100}};
  DecodeCall expected(whole, all);
  expected.run();
  expected.check();
  for (int64_t rank = 0; rank < 8; ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    PoolShape shape;
    shape.firstHead = rank / 2, shape.heads = 1;
    PagedCache part(library, shape);
    part.append(inputs, 0, 100, pageRun(0, 7));
    Request request = all;
    request.ratio = 2;
    DecodeCall call(part, request);
    std::copy_n(&expected.q[size_t(rank * 2 * 64)], call.q.size(), call.q.data());
    call.run();
    call.check();
    EXPECT_TRUE(sameBits(call.out.data(), expected.row(rank * 2), call.out.size()));
    EXPECT_TRUE(sameBits(call.lse.data(), &expected.lse[size_t(rank * 2)], 2));
  }
}

} // namespace
} // namespace kvq::test

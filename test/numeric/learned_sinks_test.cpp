// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Learned sinks that a library holds: decode takes them where a call gives none, those of its layer
// and query heads.
#include "codegen/artifact/CompileCpu.h"
#include "codegen/artifact/LibraryBuilder.h"
#include "kvq/runtime.h"
#include "test/numeric/Methods.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

namespace kvq::test {
namespace {

constexpr int kLayers = 2, kKvHeads = 2, kRatio = 2, kDim = 64, kTokens = 40;
constexpr int kHeads = kKvHeads * kRatio;

/// Sinks of `layers` layers behind a mean, so that neither begins the constants.
CacheMethod methodWithSinks(int layers) {
  CacheMethod method = plainMethod(kDim, kDim, kRatio).method;
  method.name = "sinks";
  method.layers = kLayers, method.kv_heads = kKvHeads, method.q_heads = kHeads;
  method.key.rows = method.value.rows = method.attention.rows = ElementType::f32;
  method.constants = {{"value_mean", {kLayers, kKvHeads, kDim}, 0},
                      {"sinks", {layers, kHeads, 1}, 4 * kLayers * kKvHeads * kDim}};
  Step center;
  center.result = ElementType::f32, center.constant = 0;
  method.value.steps = {center};
  method.attention.sinks = 1;
  return method;
}

std::vector<float> constantsOf(int layers) {
  std::vector<float> values(kLayers * kKvHeads * kDim);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i % 11) / 8;
  for (int i = 0; i < layers * kHeads; ++i)
    values.push_back(1 + float(i) / 4);
  return values;
}

struct Close {
  void operator()(kvq_library *library) const { kvq_close(library); }
};
using Handle = std::unique_ptr<kvq_library, Close>;

/// The shared object of a method with sinks; no kernel depends on which.
const std::string &kernels() {
  static const std::string object = [] {
    mlir::MLIRContext context;
    context.disableMultithreading();
    auto code = mlir::kvq::compileCpuShared(
        mlir::UnknownLoc::get(&context), methodWithSinks(kLayers), mlir::kvq::hostCpuLevel(),
        [](llvm::StringRef, llvm::function_ref<void(llvm::raw_ostream &)>) {});
    return mlir::failed(code) ? std::string() : *code;
  }();
  return object;
}

kvq_status open(int layers, Handle &out, size_t constantBytes = SIZE_MAX) {
  const std::vector<float> values = constantsOf(layers);
  mlir::kvq::FormatArtifact artifact{methodWithSinks(layers)};
  artifact.constants.assign(reinterpret_cast<const char *>(values.data()),
                            std::min(4 * values.size(), constantBytes));
  artifact.sharedObject = kernels();
  artifact.level = mlir::kvq::hostCpuLevel();
  std::string bytes;
  EXPECT_EQ(libraryBytes(mlir::kvq::buildLibrary({artifact}), bytes), "");
  const kvq_open_options options = {sizeof options, KVQ_ALLOW_HOST_CODE, 1, KVQ_TARGET_CPU};
  kvq_library *library = nullptr;
  const kvq_status status = kvq_open_memory(bytes.data(), bytes.size(), &options, &library);
  out.reset(library);
  return status;
}

struct Result {
  std::vector<float> out, lse;
  bool operator==(const Result &other) const { return out == other.out && lse == other.lse; }
};

/// Tokens appended at `place` and attended by one query token, with the sinks of the call or none.
Result decode(kvq_library *library, const kvq_place &place, const float *sinks) {
  const int64_t heads = place.kv_heads, rowBytes = 4 * kDim;
  Inputs inputs = makeInputs(methodWithSinks(kLayers), kTokens, 1, Data::random, 7);
  std::vector<int64_t> slots(kTokens);
  for (int64_t i = 0; i < kTokens; ++i)
    slots[size_t(i)] = i;
  struct alignas(128) Block {
    char bytes[128];
  };
  std::vector<Block> pool(1 << 9), workspace(1 << 13);
  const kvq_pool pages = {pool.data(), 1 << 15, 1 << 14, 64};
  kvq_token_args append = {};
  append.size = sizeof append;
  append.k = inputs.k.data(), append.v = inputs.v.data();
  append.k_token_stride = append.v_token_stride = kKvHeads * rowBytes;
  append.k_head_stride = append.v_head_stride = rowBytes;
  append.slots = slots.data(), append.tokens = kTokens, append.pool = pages, append.place = place;
  EXPECT_EQ(kvq_append(library, &append), KVQ_OK) << kvq_last_error();
  Result result;
  result.out.assign(size_t(heads * kRatio * kDim), NAN);
  result.lse.assign(size_t(heads * kRatio), NAN);
  const int32_t length = kTokens, page = 0;
  kvq_decode_args args = {};
  args.size = sizeof args;
  args.q = inputs.q.data(), args.q_token_stride = heads * kRatio * rowBytes;
  args.out = result.out.data(), args.out_token_stride = args.q_token_stride;
  args.q_head_stride = args.out_head_stride = rowBytes;
  args.lse = result.lse.data(), args.lse_head_stride = 4,
  args.lse_token_stride = 4 * heads * kRatio;
  args.pool = pages, args.table = {&page, nullptr, 4, 1}, args.place = place;
  args.lengths = &length, args.batch = 1, args.max_length = kTokens;
  args.sinks = sinks;
  args.workspace = workspace.data(), args.workspace_bytes = workspace.size() * sizeof(Block);
  EXPECT_EQ(kvq_decode(library, &args), KVQ_OK) << kvq_last_error();
  return result;
}

TEST(LearnedSinks, TheLibrarysAreThoseOfTheArgument) {
  const float none[kHeads] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
  for (int layers : {1, kLayers}) {
    Handle library;
    ASSERT_EQ(open(layers, library), KVQ_OK) << kvq_last_error();
    const std::vector<float> constants = constantsOf(layers);
    const float *sinks = &constants[kLayers * kKvHeads * kDim];
    for (const kvq_place place : {kvq_place{0, 0, 2}, kvq_place{1, 0, 2}, kvq_place{1, 1, 1}}) {
      SCOPED_TRACE(std::to_string(layers) + " layers of sinks, layer " +
                   std::to_string(place.layer) + ", first head " +
                   std::to_string(place.first_head));
      const int64_t layer = layers == 1 ? 0 : place.layer;
      const Result own = decode(library.get(), place, nullptr);
      EXPECT_TRUE(own ==
                  decode(library.get(), place, sinks + layer * kHeads + place.first_head * kRatio));
      EXPECT_FALSE(own == decode(library.get(), place, none));
    }
  }
}

TEST(LearnedSinks, AreReported) {
  Handle library;
  ASSERT_EQ(open(kLayers, library), KVQ_OK) << kvq_last_error();
  kvq_geometry geometry = {};
  geometry.size = sizeof geometry;
  ASSERT_EQ(kvq_query(library.get(), 1, &geometry), KVQ_OK) << kvq_last_error();
  EXPECT_NE(geometry.sinks, 0);
}

TEST(LearnedSinks, MissingOnesAreRefused) {
  Handle library;
  const size_t bytes = 4 * constantsOf(kLayers).size();
  EXPECT_EQ(open(kLayers, library, bytes - 4), KVQ_INVALID_FILE);
  EXPECT_STREQ(kvq_last_error(), ("constant 'sinks': expected 32 bytes at 1024 in the constants, "
                                  "which have " +
                                  std::to_string(bytes - 4) + " bytes")
                                     .c_str());
}

} // namespace
} // namespace kvq::test

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Libraries of whole models: which format and which constants a layer has, and the kernels of each
// format.
#include "runtime/format/library.h"
#include "runtime/lib/Library.h"

#include <gtest/gtest.h>

using namespace kvq;

namespace {

CacheMethod method(const std::string &name, int dim, int layers) {
  CacheMethod method;
  method.name = name;
  method.key.record.dim = method.value.record.dim = dim;
  method.q_heads = 4, method.kv_heads = 2, method.layers = layers;
  method.attention.scale = 0.5f;
  return method;
}

LibraryKernel kernel(KernelRole role, const char *target = "cpu", int32_t rows = 0,
                     uint32_t format = 0) {
  LibraryKernel kernel;
  kernel.role = role, kernel.target = target, kernel.rows = rows, kernel.format = format;
  kernel.symbol = std::string(roleName(role)) + std::to_string(rows);
  kernel.threads = kernel.target == "cpu" ? 0 : 128;
  return kernel;
}

/// Layers 1 and 4 in one format, in the other order; 2 in the other; 0 and 3 in none.
LibraryContents example() {
  LibraryContents contents;
  contents.formats = {{methodText(method("narrow", 64, 2)), ""},
                      {methodText(method("wide", 256, 1)), ""}};
  contents.layers = {{-1, 0}, {0, 1}, {1, 0}, {-1, 0}, {0, 0}};
  contents.objects = {"code"};
  return contents;
}

Status open(const LibraryContents &contents, std::unique_ptr<kvq_library> &out) {
  std::string bytes;
  EXPECT_EQ(libraryBytes(contents, bytes), "");
  FileBytes file;
  EXPECT_EQ(FileBytes::copy({bytes.data(), bytes.size()}, file), "");
  return openLibrary(std::move(file), kvq_open_options{}, out);
}

TEST(ModelLibrary, LayersHaveTheirFormatAndConstants) {
  std::unique_ptr<kvq_library> library;
  ASSERT_TRUE(open(example(), library).ok());
  const Format *format = nullptr;
  int64_t layer = -1;
  ASSERT_TRUE(formatOf(*library, 1, format, layer).ok());
  EXPECT_EQ(format->method.name, "narrow");
  EXPECT_EQ(layer, 1);
  ASSERT_TRUE(formatOf(*library, 4, format, layer).ok());
  EXPECT_EQ(format->method.name, "narrow");
  EXPECT_EQ(layer, 0);
  ASSERT_TRUE(formatOf(*library, 2, format, layer).ok());
  EXPECT_EQ(format->method.name, "wide");
  EXPECT_EQ(format->layout.spec.k.dim, 256);
  EXPECT_EQ(layer, 0);
}

TEST(ModelLibrary, OtherLayersAreErrors) {
  std::unique_ptr<kvq_library> library;
  ASSERT_TRUE(open(example(), library).ok());
  const Format *format = nullptr;
  int64_t layer = -1;
  for (int64_t skipped : {0, 3}) {
    const Status status = formatOf(*library, skipped, format, layer);
    EXPECT_EQ(status.code, KVQ_UNSUPPORTED);
    EXPECT_EQ(status.message,
              "layer " + std::to_string(skipped) + " is one that the library does not quantize");
  }
  for (int64_t outside : {int64_t(-1), int64_t(5), INT64_MAX, INT64_MIN}) {
    const Status status = formatOf(*library, outside, format, layer);
    EXPECT_EQ(status.code, KVQ_INVALID_ARGUMENT);
    EXPECT_EQ(status.message, "layer: expected 0 to 4, got " + std::to_string(outside));
  }
  EXPECT_EQ(format, nullptr);
}

/// Opening with one change of the contents.
template <typename Change> std::string openError(Change change) {
  LibraryContents contents = example();
  change(contents);
  std::unique_ptr<kvq_library> library;
  const Status status = open(contents, library);
  EXPECT_EQ(status.code, KVQ_INVALID_FILE);
  EXPECT_EQ(library, nullptr);
  return status.message;
}

TEST(ModelLibrary, ErrorsNameTheFormat) {
  EXPECT_EQ(openError([](LibraryContents &c) { c.layers[2].constant_layer = 1; }),
            "format 1: layer 2 of the model: expected constants of one of 1 layers, got number 1");
  EXPECT_EQ(openError([](LibraryContents &c) {
              CacheMethod wide = method("wide", 256, 1);
              wide.constants = {{"mean", {1, 2, 256}, 0}};
              c.formats[1].method = methodText(wide);
            }),
            "format 1: constant 'mean': expected 2048 bytes at 0 in the constants, which have 0 "
            "bytes");
  EXPECT_EQ(openError([](LibraryContents &c) {
              c.formats[1].method = "{}";
            }).rfind("format 1: the method of the library is not valid: ", 0),
            0u);
  EXPECT_EQ(
      openError([](LibraryContents &c) { c.kernels = {kernel(KernelRole::append, "cpu", 0, 1)}; }),
      "expected kernels of four roles for cpu of format 1, got none for prepare");
}

std::vector<LibraryKernel> gpuKernels(uint32_t format) {
  // Not in the order of their rows.
  return {kernel(KernelRole::append, "sm_90a", 0, format),
          kernel(KernelRole::plan, "sm_90a", 0, format),
          kernel(KernelRole::prepare, "sm_90a", 0, format),
          kernel(KernelRole::decode, "sm_90a", 16, format),
          kernel(KernelRole::decode, "sm_90a", 4, format),
          kernel(KernelRole::decode, "sm_90a", 8, format),
          kernel(KernelRole::demote, "sm_90a", 0, format)};
}

Status setsOfKernels(const std::vector<LibraryKernel> &kernels, std::vector<KernelSet> &sets) {
  static LibraryView view; // sets point into it
  view = {};
  view.formats.resize(2);
  view.kernels = kernels;
  return kernelSets(view, sets);
}

TEST(ModelLibrary, KernelsByFormatRoleAndRows) {
  std::vector<LibraryKernel> kernels = gpuKernels(1);
  for (const LibraryKernel &more : gpuKernels(0))
    kernels.push_back(more);
  std::vector<KernelSet> sets;
  ASSERT_TRUE(setsOfKernels(kernels, sets).ok());
  ASSERT_EQ(sets.size(), 2u);
  const std::vector<KernelSet> second = setsOf(sets, 1);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].format, 1u);
  EXPECT_EQ(second[0].kernels.size(), 7u);
  EXPECT_EQ(second[0].role(KernelRole::decode).rows, 4);
  for (int32_t rows : {4, 8, 16})
    EXPECT_EQ(second[0].find(KernelRole::decode, rows)->rows, rows);
  EXPECT_EQ(second[0].find(KernelRole::decode, 12), nullptr);
  EXPECT_EQ(second[0].find(KernelRole::prepare, 12)->rows, 0); // serves any
  EXPECT_EQ(second[0].find(KernelRole::merge), nullptr);
  EXPECT_EQ(second[0].find(KernelRole::commit), nullptr);
  EXPECT_EQ(second[0].find(KernelRole::demote)->role, KernelRole::demote);
}

TEST(ModelLibrary, SetsThatCannotWorkAreRefused) {
  auto error = [](auto change) {
    std::vector<LibraryKernel> kernels = gpuKernels(1);
    change(kernels);
    std::vector<KernelSet> sets;
    const Status status = setsOfKernels(kernels, sets);
    EXPECT_EQ(status.code, KVQ_INVALID_FILE);
    EXPECT_TRUE(sets.empty());
    return status.message;
  };
  using Kernels = std::vector<LibraryKernel>;
  EXPECT_EQ(error([](Kernels &k) { k[5].rows = 16; }),
            "expected one kernel for sm_90a of format 1 of the role decode, got 'decode16' and "
            "'decode8'");
  EXPECT_EQ(
      error([](Kernels &k) { k[2].rows = 8; }),
      "expected a kernel for sm_90a of format 1 of the role prepare that goes with the 4 rows "
      "of 'decode4', got none");
  EXPECT_EQ(error([](Kernels &k) {
              for (int32_t rows : {4, 16})
                k.push_back(kernel(KernelRole::prepare, "sm_90a", rows, 1));
              k[2].rows = 8, k[2].info.query_floats = 1;
            }),
            "expected one size of workspace of the kernels for sm_90a of format 1, got two in "
            "'prepare0' and 'decode8'");
  EXPECT_EQ(error([](Kernels &k) { k[4].object = 1; }),
            "expected all kernels for sm_90a of format 1 in one object, got 'append0' and "
            "'decode4' in two");
}

} // namespace

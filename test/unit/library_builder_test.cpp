// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Libraries of CPU kernels, of GPU modules, and of both.
#include "codegen/artifact/LibraryBuilder.h"

#include "llvm/Support/JSON.h"

#include <gtest/gtest.h>

using namespace mlir::kvq;
using ::kvq::KernelRole;

namespace {

FormatArtifact artifact(std::string sharedObject) {
  FormatArtifact artifact{{}, "constants", std::move(sharedObject), CpuLevel::v3, "pipeline"};
  artifact.method.name = "example";
  artifact.method.key.record.dim = artifact.method.value.record.dim = 64;
  artifact.method.q_heads = 4, artifact.method.kv_heads = 2, artifact.method.layers = 1;
  return artifact;
}

GpuModule module(std::string level) {
  return {"sm_90a",
          level,
          level + " code",
          {{KernelRole::append, "kvq_append", 128, 0, 0, 0, level + " append"},
           {KernelRole::plan, "kvq_plan", 256, 64, 36, 10, level + " plan"},
           {KernelRole::prepare, "kvq_prepare", 64, 1024, 36, 10, level + " prepare", 4},
           {KernelRole::decode, "kvq_decode", 256, 65536, 36, 10, level + " decode", 4}},
          level + " decode",
          level + " digest",
          "22.1",
          level == "cubin" ? "13.0" : ""};
}

/// The library must survive the file, too.
::kvq::LibraryContents build(std::string sharedObject, std::vector<GpuModule> modules) {
  FormatArtifact format = artifact(std::move(sharedObject));
  format.modules = std::move(modules);
  ::kvq::LibraryContents contents = buildLibrary({std::move(format)});
  std::string bytes;
  EXPECT_EQ(::kvq::libraryBytes(contents, bytes), "");
  ::kvq::LibraryView view;
  EXPECT_EQ(::kvq::parseLibrary({bytes.data(), bytes.size()}, view), "");
  EXPECT_EQ(view.kernels.size(), contents.kernels.size());
  EXPECT_EQ(contents.formats.at(0).constants, "constants");
  return contents;
}

llvm::json::Array manifestList(const ::kvq::LibraryContents &contents, llvm::StringRef key) {
  llvm::Expected<llvm::json::Value> manifest = llvm::json::parse(contents.manifest);
  EXPECT_TRUE(bool(manifest)) << contents.manifest;
  const llvm::json::Array *list = manifest->getAsObject()->getArray(key);
  EXPECT_TRUE(list) << key.str();
  return list ? *list : llvm::json::Array{};
}

llvm::json::Array manifestKernels(const ::kvq::LibraryContents &contents) {
  return manifestList(contents, "kernels");
}

TEST(LibraryBuilder, CpuAlone) {
  const ::kvq::LibraryContents contents = build("object", {});
  ASSERT_EQ(contents.objects, std::vector<std::string>{"object"});
  ASSERT_EQ(contents.kernels.size(), 5u);
  for (const ::kvq::LibraryKernel &kernel : contents.kernels) {
    EXPECT_EQ(kernel.target, "cpu");
    EXPECT_EQ(kernel.level, "x86-64-v3");
    EXPECT_EQ(kernel.object, 0u);
    EXPECT_EQ(kernel.threads, 0);
  }
  const llvm::json::Array kernels = manifestKernels(contents);
  ASSERT_EQ(kernels.size(), 5u);
  EXPECT_EQ(kernels[3].getAsObject()->getString("role"), llvm::StringRef("merge"));
  EXPECT_EQ(kernels[3].getAsObject()->get("threads"), nullptr);
  EXPECT_EQ(kernels[3].getAsObject()->get("name"), nullptr);
  EXPECT_EQ(kernels[4].getAsObject()->getString("role"), llvm::StringRef("dequantize"));
  EXPECT_TRUE(manifestList(contents, "modules").empty());
}

TEST(LibraryBuilder, GpuAlone) {
  const ::kvq::LibraryContents contents = build("", {module("cubin")});
  ASSERT_EQ(contents.objects, std::vector<std::string>{"cubin code"});
  ASSERT_EQ(contents.kernels.size(), 4u);
  const ::kvq::LibraryKernel &prepare = contents.kernels[2];
  EXPECT_EQ(prepare.role, KernelRole::prepare);
  EXPECT_EQ(prepare.target, "sm_90a");
  EXPECT_EQ(prepare.level, "cubin");
  EXPECT_EQ(prepare.symbol, "kvq_prepare");
  EXPECT_EQ(prepare.object, 0u);
  EXPECT_EQ(prepare.info.query_floats, 36);
  EXPECT_EQ(prepare.info.partial_floats, 10);
  EXPECT_EQ(prepare.threads, 64);
  EXPECT_EQ(prepare.shared_bytes, 1024);
  EXPECT_EQ(contents.kernels[0].info.query_floats, 0);
}

TEST(LibraryBuilder, CpuAndGpu) {
  const ::kvq::LibraryContents contents = build("object", {module("cubin"), module("ptx")});
  ASSERT_EQ(contents.objects, (std::vector<std::string>{"object", "cubin code", "ptx code"}));
  ASSERT_EQ(contents.kernels.size(), 13u); // 5 of the CPU, 4 of each module
  for (size_t i = 0; i < 13; ++i)
    EXPECT_EQ(contents.kernels[i].object, i < 5 ? 0 : (i - 1) / 4);
  const llvm::json::Array kernels = manifestKernels(contents);
  ASSERT_EQ(kernels.size(), 13u);
  const llvm::json::Object &decode = *kernels[12].getAsObject();
  EXPECT_EQ(decode.getString("role"), llvm::StringRef("decode"));
  EXPECT_EQ(decode.getString("target"), llvm::StringRef("sm_90a"));
  EXPECT_EQ(decode.getString("level"), llvm::StringRef("ptx"));
  EXPECT_EQ(decode.getInteger("threads"), 256);
  EXPECT_EQ(decode.getInteger("shared_bytes"), 65536);
}

TEST(LibraryBuilder, NamesAndDigests) {
  const ::kvq::LibraryContents contents = build("object", {module("cubin"), module("ptx")});
  const llvm::json::Array kernels = manifestKernels(contents);
  EXPECT_EQ(kernels[3].getAsObject()->get("name"), nullptr);
  EXPECT_EQ(kernels[5].getAsObject()->getString("name"), llvm::StringRef("cubin append"));
  EXPECT_EQ(kernels[8].getAsObject()->getString("name"), llvm::StringRef("cubin decode"));
  EXPECT_EQ(kernels[9].getAsObject()->getString("name"), llvm::StringRef("ptx append"));
  const llvm::json::Array modules = manifestList(contents, "modules");
  ASSERT_EQ(modules.size(), 2u);
  EXPECT_EQ(modules[0], llvm::json::Value(llvm::json::Object{{"format", 0},
                                                             {"name", "cubin decode"},
                                                             {"target", "sm_90a"},
                                                             {"level", "cubin"},
                                                             {"ptx_sha256", "cubin digest"},
                                                             {"llvm", "22.1"},
                                                             {"ptxas", "13.0"}}));
  EXPECT_EQ(modules[1].getAsObject()->getString("ptxas"), llvm::StringRef(""));
}

TEST(LibraryBuilder, SeveralFormats) {
  std::vector<FormatArtifact> formats;
  formats.push_back(artifact("first object"));
  formats.push_back(artifact("second object"));
  formats[1].method.name = "other", formats[1].method.key.record.dim = 256;
  formats[1].constants = "more", formats[1].modules = {module("cubin")};
  formats[1].modules[0].kernels[3].registers = 96;
  const ::kvq::LibraryContents contents =
      buildLibrary(std::move(formats), {{1, 0}, {-1, 0}, {0, 0}});
  std::string bytes;
  ASSERT_EQ(::kvq::libraryBytes(contents, bytes), "");
  EXPECT_EQ(contents.objects,
            (std::vector<std::string>{"first object", "second object", "cubin code"}));
  ASSERT_EQ(contents.formats.size(), 2u);
  EXPECT_EQ(contents.formats[1].constants, "more");
  ASSERT_EQ(contents.kernels.size(), 14u); // 5 of each CPU object, 4 of the module
  for (size_t i = 0; i < 14; ++i) {
    EXPECT_EQ(contents.kernels[i].object, i / 5);
    EXPECT_EQ(contents.kernels[i].format, i < 5 ? 0u : 1u);
  }
  const llvm::json::Array layers = manifestList(contents, "layers");
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0], llvm::json::Value(llvm::json::Object{{"format", 1}, {"layer", 0}}));
  EXPECT_EQ(layers[1], llvm::json::Value(nullptr));
  const llvm::json::Array texts = manifestList(contents, "formats");
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[1].getAsObject()->getString("cache"), llvm::StringRef("other"));
  EXPECT_EQ(texts[1].getAsObject()->getInteger("key_dim"), 256);
  EXPECT_EQ(texts[1].getAsObject()->getInteger("constants_bytes"), 4);
  const llvm::json::Array kernels = manifestKernels(contents);
  EXPECT_EQ(kernels[13].getAsObject()->getInteger("format"), 1);
  EXPECT_EQ(kernels[13].getAsObject()->getInteger("registers"), 96);
  EXPECT_EQ(kernels[12].getAsObject()->get("registers"), nullptr);
  EXPECT_EQ(manifestList(contents, "modules")[0].getAsObject()->getInteger("format"), 1);
}

} // namespace

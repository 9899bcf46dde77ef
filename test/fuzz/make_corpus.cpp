// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first inputs of the corpora: small good files of each kind. usage: make_corpus FOLDER
#include "runtime/format/library.h"
#include "runtime/format/method.h"
#include "runtime/format/safetensors.h"
#include "test/support/Reseal.h"

#include <cstdio>
#include <filesystem>

using namespace kvq;

namespace {

CacheMethod plain() {
  CacheMethod method;
  method.name = "plain";
  method.key.record.dim = method.value.record.dim = 32;
  method.q_heads = 2, method.kv_heads = 1;
  method.attention.scale = 0.25f;
  return method;
}

CacheMethod rotated() {
  CacheMethod method = plain();
  method.name = "rotated", method.layers = 2;
  method.constants = {{"mean", {2, 1, 32}, 0}, {"matrix", {2, 1, 32, 32}, 256}};
  Step center, rotate, clip;
  center.constant = 0;
  rotate.kind = Step::Kind::rotate;
  RotationFactor hadamard, dense;
  hadamard.order = 32;
  dense.kind = RotationFactor::Kind::dense, dense.constant = 1, dense.inverse = true;
  rotate.factors = {hadamard, dense};
  clip.kind = Step::Kind::clip, clip.value = 0.96;
  method.key.steps = {center, rotate, clip};
  method.key.record.form = ParameterForm::sym;
  return method;
}

std::vector<LibraryKernel> kernels(const char *target, uint32_t object, uint32_t format) {
  const bool cpu = std::string(target) == "cpu";
  std::vector<LibraryKernel> out;
  for (KernelRole role : {KernelRole::append, KernelRole::prepare, KernelRole::decode,
                          cpu ? KernelRole::merge : KernelRole::plan, KernelRole::dequantize}) {
    LibraryKernel kernel;
    kernel.role = role, kernel.target = target, kernel.level = cpu ? "x86-64" : "cubin";
    kernel.symbol = std::string("kvq_") + roleName(role);
    kernel.object = object, kernel.format = format;
    kernel.threads = cpu ? 0 : 128, kernel.shared_bytes = cpu ? 0 : 1024;
    kernel.rows = role == KernelRole::decode ? 2 : 0;
    out.push_back(kernel);
  }
  return out;
}

LibraryContents one() {
  LibraryContents contents;
  contents.manifest = "{}";
  contents.formats = {{methodText(plain()), ""}};
  contents.layers = {{0, 0}};
  contents.objects = {"object"};
  contents.kernels = kernels("cpu", 0, 0);
  return contents;
}

LibraryContents several() {
  LibraryContents contents = one();
  contents.formats.push_back({methodText(rotated()), std::string(256 + 2 * 32 * 32 * 4, '\1')});
  contents.layers = {{1, 1}, {-1, 0}, {0, 0}, {1, 0}, {-1, 0}};
  contents.objects.push_back("module");
  for (const LibraryKernel &kernel : kernels("sm_90a", 1, 1))
    contents.kernels.push_back(kernel);
  return contents;
}

int save(const std::string &path, const std::string &bytes) {
  const std::string error = writeFile(path, {{bytes.data(), bytes.size()}});
  if (!error.empty())
    std::fprintf(stderr, "%s\n", error.c_str());
  return error.empty() ? 0 : 1;
}

int makeLibraries(const std::string &folder) {
  int failures = 0;
  std::string bytes;
  for (const auto &[name, contents] : {std::pair("one", one()), std::pair("several", several())}) {
    if (std::string error = libraryBytes(contents, bytes); !error.empty())
      std::fprintf(stderr, "%s\n", error.c_str());
    failures += save(folder + "/" + name, bytes);
  }
  bytes[8] = 2; // a later version that this reader may read
  test::reseal(bytes);
  return failures + save(folder + "/later", bytes);
}

int makeTensors(const std::string &folder) {
  const float values[6] = {1, 2, 3, 4, 5, 6};
  TensorView matrix, bytes, empty;
  matrix.name = "layers.0.k.mean", matrix.shape = {2, 3}, matrix.data = {values, sizeof values};
  bytes.name = "b", bytes.type = TensorType::u8, bytes.shape = {24};
  bytes.data = {values, sizeof values};
  empty.name = "e", empty.type = TensorType::bf16, empty.shape = {0, 4};
  int failures = 0;
  auto write = [&](const char *name, std::vector<TensorView> tensors,
                   const std::map<std::string, std::string> &metadata) {
    const std::string error = writeSafetensors(folder + "/" + name, std::move(tensors), metadata);
    if (!error.empty())
      std::fprintf(stderr, "%s\n", error.c_str());
    failures += !error.empty();
  };
  write("three", {matrix, bytes, empty}, {{"kvq_calibration", "{\"version\": 0}"}});
  write("none", {}, {});
  return failures + save(folder + "/header", R"({"t":{"dtype":"F64","shape":[2],)"
                                             R"("data_offsets":[0,16]}})");
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 1;
  }
  const std::string folder = argv[1];
  for (const char *name : {"library_fuzz", "safetensors_fuzz"})
    std::filesystem::create_directories(folder + "/" + name);
  return makeLibraries(folder + "/library_fuzz") + makeTensors(folder + "/safetensors_fuzz");
}

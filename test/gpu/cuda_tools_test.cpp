// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// gpu-check, graph-check, kvq-bench and kvq-run as programs, over a driver without a GPU
// (fake_driver.c): what they launch, and how they end when a kernel is wrong or faults.
#include "runtime/format/library.h"
#include "runtime/format/method.h"
#include "runtime/format/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>

namespace kvq {
namespace {

std::string contents(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class CudaTools : public ::testing::Test {
protected:
  void SetUp() override {
    folder = ::testing::TempDir() + "cuda_tools_" +
             ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder);
    ASSERT_TRUE(std::filesystem::create_directories(folder));
  }

  /// A library whose GPU code the fake driver takes for what its symbols say.
  std::string makeLibrary(const std::string &name, float scale, int heads = 2, int dim = 64,
                          bool windows = false) {
    CacheMethod method;
    method.name = name;
    method.q_heads = 4 * heads, method.kv_heads = heads;
    method.attention.scale = scale;
    method.sink = windows ? 20 : 0, method.recent = windows ? 100 : 0;
    for (SideMethod *side : {&method.key, &method.value})
      side->record.dim = side->record.group = dim;
    LibraryContents library;
    library.formats = {{methodText(method), ""}};
    library.layers = {{0, 0}};
    library.manifest = R"({"modules": [{"llvm": "22.1"}]})";
    library.objects = {"code"};
    std::vector<KernelRole> roles = {KernelRole::append, KernelRole::plan, KernelRole::prepare,
                                     KernelRole::decode};
    if (windows)
      roles.insert(roles.end(),
                   {KernelRole::append_window, KernelRole::commit, KernelRole::demote});
    for (KernelRole role : roles) {
      LibraryKernel kernel;
      kernel.role = role;
      kernel.target = "sm_90a", kernel.level = "cubin";
      kernel.symbol = std::string("kvq_") + roleName(role);
      kernel.threads = 256;
      if (role == KernelRole::plan || role == KernelRole::prepare || role == KernelRole::decode)
        kernel.info = {512, 512};
      kernel.rows = role == KernelRole::decode ? 4 : 0;
      library.kernels.push_back(kernel);
    }
    const std::string path = folder + "/" + name + ".kvqlib";
    EXPECT_EQ(writeLibrary(path, library), "");
    return path;
  }

  /// A trace of one layer, 8 query and 2 KV heads of 64 channels: 16 tokens, the last 2 with
  /// queries.
  std::string makeTrace() {
    std::vector<char> zeros(size_t(16) * 8 * 64 * 2); // as many bytes as the largest tensor has
    auto tensor = [&](const char *name, const std::vector<int64_t> &shape) {
      size_t bytes = 2;
      for (int64_t size : shape)
        bytes *= size_t(size);
      return TensorView{name, TensorType::bf16, shape, {zeros.data(), bytes}};
    };
    const std::vector<TensorView> tensors = {
        tensor("layers.0.q", {2, 8, 64}), tensor("layers.0.k", {16, 2, 64}),
        tensor("layers.0.v", {16, 2, 64}), tensor("layers.0.wo", {512, 4})};
    const std::string path = folder + "/trace.safetensors";
    const std::string document =
        R"({"version": 1, "q_start": 14, "tokens": 16, "layers": [0], "dtype": "bf16", "rope": {},
            "model": {"name": "m", "sha256": "", "hidden": 4, "q_heads": 8, "kv_heads": 2,
                      "head_dim": 64, "layers": 1}, "text": {"id": "t"}, "sha256": ")" +
        tensorDigest(tensors) + "\"}";
    EXPECT_EQ(writeSafetensors(path, tensors, {{"kvq_trace", document}}), "");
    return path;
  }

  /// Exit status; what the program prints goes to `output`.
  int run(const std::string &environment, const std::string &command) {
    const std::string text = folder + "/output";
    const int status =
        std::system( // NOLINT(bugprone-command-processor): programs are what is tested
            ("LD_LIBRARY_PATH='" KVQ_FAKE_DRIVER "' KVQ_FAKE_DRIVER_LOG='" + folder + "/log' " +
             environment + " " KVQ_TOOLS "/" + command + " >'" + text + "' 2>&1")
                .c_str());
    output = contents(text);
    return WEXITSTATUS(status);
  }

  std::map<std::string, int> launches() const {
    std::map<std::string, int> counts;
    std::istringstream lines(contents(folder + "/log"));
    for (std::string line; std::getline(lines, line);)
      ++counts[line];
    return counts;
  }

  std::string folder, output;
};

TEST_F(CudaTools, KernelsThatDoNothingFailAndAreNotDecoded) {
  const std::string library = makeLibrary("idle", 0.125f);
  EXPECT_EQ(run("", "gpu-check " + library), 1) << output;
  EXPECT_NE(output.find("FAIL idle"), std::string::npos) << output;
  EXPECT_NE(output.find("bytes differ"), std::string::npos) << output;
  EXPECT_GT(launches()["kvq_append"], 0);
  EXPECT_EQ(launches().count("kvq_decode"), 0u);
}

/// A fault costs its library and its process; the next library runs in another.
TEST_F(CudaTools, FaultEndsOneLibrary) {
  const std::string first = makeLibrary("first", 0.125f), second = makeLibrary("second", 0.25f);
  const std::string report = folder + "/report.json";
  EXPECT_EQ(run("KVQ_FAKE_DRIVER_FAULT=1",
                "gpu-check --large --report '" + report + "' " + first + " " + second),
            1)
      << output;
  for (const char *name : {"FAIL first", "FAIL second"})
    EXPECT_NE(output.find(name), std::string::npos) << output;
  EXPECT_NE(output.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << output;
  EXPECT_EQ(launches()["kvq_append"], 2) << "each process ends at its first launch";
  const std::string text = contents(report);
  for (const char *part : {"\"name\": \"first\"", "\"name\": \"second\"", "\"passed\": false",
                           "\"complete\": true", "\"device\": \"fake GPU\"", "\"llvm\": \"22.1\""})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
}

/// One capture of 4 kernels for each of 4 ways to split; a step with windows has 6.
TEST_F(CudaTools, GraphCheckCapturesSteps) {
  const std::string records = makeLibrary("records", 0.125f);
  const std::string windows = makeLibrary("windows", 0.25f, 2, 64, /*windows=*/true);
  EXPECT_EQ(run("", "graph-check " + records + " " + windows), 0) << output;
  EXPECT_NE(output.find("2 libraries, 0 failures"), std::string::npos) << output;
  const std::map<std::string, int> counts = launches();
  EXPECT_GT(counts.at("kvq_append"), 0);
  EXPECT_EQ(counts.at("kvq_append_window"), counts.at("kvq_commit"));
  EXPECT_EQ(counts.at("kvq_append_window"), counts.at("kvq_demote"));
  EXPECT_EQ(counts.at("kvq_append_window") + counts.at("kvq_append"), counts.at("kvq_decode"));
}

TEST_F(CudaTools, GraphCheckTellsOtherBits) {
  const std::string library = makeLibrary("records", 0.125f);
  EXPECT_EQ(run("KVQ_FAKE_DRIVER_WRONG=1", "graph-check " + library), 1) << output;
  EXPECT_NE(output.find("FAIL records, q_length 4, split_tokens 512: replay 1: the bits differ"),
            std::string::npos)
      << output;
}

TEST_F(CudaTools, BenchLaunchesWhatItTimes) {
  const std::string library = makeLibrary("int2", 0.125f), json = folder + "/bench.json";
  ASSERT_EQ(run("", "kvq-bench --lib short=" + library +
                        " --case 4x1024 --pages 160 --rounds 1 --without-prepare --load-only "
                        "--json '" +
                        json + "'"),
            0)
      << output;
  // Two disjoint parts of the pool, so the least number of launches, 16; and one of each kernel to
  // make the plan and the queries before either graph.
  std::map<std::string, int> counts = launches();
  EXPECT_EQ(counts["kvq_plan"], 2);
  EXPECT_EQ(counts["kvq_prepare"], 2 + 16);
  EXPECT_EQ(counts["kvq_decode"], 2 + 2 * 16);
  EXPECT_EQ(counts["load_only"], 16);
  EXPECT_GT(counts["read_all"], 0);
  EXPECT_EQ(counts.count("kvq_append"), 0u);
  const std::string text = contents(json);
  for (const char *part :
       {"\"card\": \"fake GPU\"", "\"kernel\": \"short\"", "\"kernel_full\": \"int2\"",
        "\"case\": \"4x1024\"", "\"mode\": \"both\"", "\"mode\": \"decode\"", "\"mode\": \"load\"",
        "\"us\": 31.25", "\"like_bf16\": false"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
}

/// The baseline is compared with the host twice, then timed over two parts of the pool.
TEST_F(CudaTools, BenchTimesTheBaseline) {
  const std::string json = folder + "/bench.json";
  const std::string command =
      "kvq-bench --bf16 --case 1x4096 --pages 140 --rounds 1 --json '" + json + "'";
  ASSERT_EQ(run("", command), 0) << output;
  EXPECT_EQ(launches()["bf16_decode"], 2 + 16);
  EXPECT_GT(launches()["read_all"], 0);
  const std::string text = contents(json);
  // 64 pages of 8 KV heads of 32 KiB in 31.25 us.
  for (const char *part : {"\"kernel\": \"bf16\"", "\"case\": \"1x4096\"", "\"mode\": \"decode\"",
                           "\"us\": 31.25", "\"gbs\": 536.87", "\"like_bf16\": true"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
}

/// Times stand beside the baseline's where heads and channels are its own.
TEST_F(CudaTools, BenchSaysWhatTheBaselineIsLike) {
  const std::string json = folder + "/bench.json";
  for (const auto &[heads, dim, like] :
       {std::tuple(8, 128, "true"), std::tuple(4, 128, "false"), std::tuple(8, 64, "false")}) {
    const std::string library = makeLibrary("shape", 0.125f, heads, dim);
    std::string command = "kvq-bench --case 1x64 --pages 2 --rounds 1 --lib a=";
    command.append(library).append(" --json '").append(json).append("'");
    ASSERT_EQ(run("", command), 0) << output;
    std::string field = "\"like_bf16\": ";
    EXPECT_NE(contents(json).find(field.append(like)), std::string::npos)
        << heads << " heads of " << dim;
  }
}

TEST_F(CudaTools, BenchRefusesAWrongBaseline) {
  const std::string json = folder + "/bench.json";
  EXPECT_EQ(run("KVQ_FAKE_DRIVER_WRONG=1", "kvq-bench --bf16 --pages 140 --json '" + json + "'"),
            1);
  EXPECT_NE(output.find("bf16 decode of 3x1000: sequence 0, query head 0: relative error"),
            std::string::npos)
      << output;
  EXPECT_EQ(launches()["bf16_decode"], 1) << "nothing is timed";
  EXPECT_FALSE(std::filesystem::exists(json));
  EXPECT_EQ(run("", "kvq-bench --bf16 --pages 139"), 1);
  EXPECT_NE(output.find("70x65: expected a pool of 140 pages, got 139"), std::string::npos)
      << output;
}

TEST_F(CudaTools, BenchRefusesWhatItCannotTime) {
  const std::string library = makeLibrary("int2", 0.125f);
  EXPECT_EQ(run("", "kvq-bench --lib a=" + library + " --case 4x1024 --pages 63"), 1);
  EXPECT_NE(output.find("4x1024: expected a pool of 64 pages, got 63"), std::string::npos)
      << output;
  EXPECT_EQ(run("KVQ_FAKE_DRIVER_FAULT=1", "kvq-bench --lib a=" + library + " --case 1x64"), 1);
  EXPECT_NE(output.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << output;
}

TEST_F(CudaTools, RunTakesTheTarget) {
  const std::string files = makeLibrary("int2", 0.125f) + " --trace " + makeTrace();
  EXPECT_EQ(run("", "kvq-run --json --target cuda " + files), 0) << output;
  EXPECT_NE(output.find("\"target\": \"cuda\""), std::string::npos) << output;
  for (const char *kernel : {"kvq_append", "kvq_plan", "kvq_prepare", "kvq_decode"})
    EXPECT_GT(launches()[kernel], 0) << kernel;
  EXPECT_EQ(run("", "kvq-run --target cpu " + files), 1);
  EXPECT_NE(output.find("no kernels for the CPU"), std::string::npos) << output;
  EXPECT_EQ(run("KVQ_FAKE_DRIVER_FAULT=1", "kvq-run --target cuda " + files), 1);
  EXPECT_NE(output.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << output;
}

} // namespace
} // namespace kvq

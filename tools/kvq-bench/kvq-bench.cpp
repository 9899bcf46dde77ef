// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kvq-bench: times of decode, beside the rate at which the device reads memory.
#include "tools/device/Flags.h"
#include "tools/kvq-bench/Bf16Decode.h"
#include "tools/kvq-bench/LaunchFilter.h"
#include "tools/kvq-bench/Workload.h"

#include "runtime/format/file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>

namespace {

using namespace kvq;
using Json = nlohmann::ordered_json;

constexpr const char *kUsage = R"(usage: kvq-bench [options] --lib NAME=FILE.kvqlib ...
Times one decode step of a layer on the first CUDA device, queries prepared and attended, and prints
the share of the read ceiling that its bytes make. The plan is made once, as for all layers of a step.
  --target cuda        the only one (default)
  --case CASES         batch x context, with commas (default: the six of the design)
  --lib NAME=FILE      a library and its short name; may be repeated
  --without-prepare    times decode without the query kernel too
  --bf16               times our decode over a BF16 cache too: 32 query and 8 KV heads of 128, pages of
                       64 (8.6 GB); it is compared with float64 on the host first (sm_90)
  --load-only          times a kernel too that reads the same records and computes nothing (sm_90)
  --page TOKENS        of a page (default: 64)
  --pages COUNT        of the pool (default: 32768, at 2 bits and 8 KV heads of 128: 1.2 GB)
  --rounds COUNT       of the interleaved rounds (default: 5)
  --json FILE          results for programs
Times are medians of rounds; a round is the median of 11 replays of a graph of 4 to 16 launches after
a pause of 15 ms. Launches read disjoint parts of the pool in random order: nothing comes from a cache.
)";

constexpr const char *kCases = "1x131072,8x32768,32x8192,128x4096,256x1024,64x32768";

struct Options {
  std::vector<BenchCase> cases;
  std::vector<std::pair<std::string, std::string>> libraries; ///< name, path
  bool withoutPrepare = false, loadOnly = false, bf16 = false;
  int64_t page = 64, pages = 32768, rounds = 5;
  std::string json;
};

Options parse(int argc, char **argv) {
  const Flags flags(argc, argv, {"target", "case", "lib", "page", "pages", "rounds", "json"},
                    {"without-prepare", "load-only", "bf16", "help"});
  if (flags.has("help")) {
    std::fputs(kUsage, stdout);
    std::exit(0);
  }
  if (const std::string target = flags.text("target", "cuda"); target != "cuda")
    throw std::runtime_error("--target: expected cuda, got '" + target + "'");
  Options out;
  for (const std::string &text : flags.list("case", kCases))
    out.cases.push_back(BenchCase::parse(text));
  for (const std::string &text : flags.all("lib")) {
    const size_t equal = text.find('=');
    if (equal == std::string::npos || equal == 0)
      throw std::runtime_error("--lib: expected NAME=FILE, got '" + text + "'");
    out.libraries.emplace_back(text.substr(0, equal), text.substr(equal + 1));
  }
  if (!flags.positional().empty())
    throw std::runtime_error("expected options only, got '" + flags.positional()[0] + "'");
  out.withoutPrepare = flags.has("without-prepare");
  out.loadOnly = flags.has("load-only");
  out.bf16 = flags.has("bf16");
  out.page = parseNumber("--page", flags.text("page", "64"), 1);
  out.pages = parseNumber("--pages", flags.text("pages", "32768"), 1);
  out.rounds = parseNumber("--rounds", flags.text("rounds", "5"), 1);
  out.json = flags.text("json", "");
  return out;
}

/// One line of the result.
struct Series {
  std::string kernel, fullName, mode;
  BenchCase bench;
  double bytes; ///< that a launch has to read
  std::function<TimedGraph()> capture;
  bool likeBf16 = false;      ///< heads and channels as the baseline has them
  std::vector<double> rounds; ///< microseconds
};

/// All modes of a case in turn: round by round, so that a drift of the clock meets all alike.
void measure(int64_t rounds, std::vector<Series> &series, ReadCeiling &ceiling) {
  for (int64_t round = 0; round < rounds; ++round) {
    for (Series &one : series)
      one.rounds.push_back(one.capture().round());
    ceiling.measure(2);
  }
}

/// What is timed of a library in one case: query kernel and decode, decode alone, loads alone.
std::vector<Series> seriesOf(const Options &options, Workload &work, const BenchCase &bench) {
  std::vector<Series> out;
  auto add = [&](const char *mode, const std::function<TimedGraph()> &capture) {
    using Base = Bf16Decode;
    out.push_back({work.name,
                   work.fullName(),
                   mode,
                   bench,
                   work.bytesOf(bench),
                   capture,
                   work.hasShape(Base::kQueryHeads, Base::kKvHeads, Base::kDim),
                   {}});
  };
  add("both", [&work, bench] { return work.capture(bench, false); });
  if (options.withoutPrepare)
    add("decode", [&work, bench] { return work.capture(bench, true); });
  if (options.loadOnly)
    add("load", [&work, bench] { return work.captureLoads(bench); });
  return out;
}

Json resultOf(const Series &series, double ceiling) {
  const double us = median(series.rounds), rate = series.bytes / us * 1e-3;
  const auto [low, high] = std::minmax_element(series.rounds.begin(), series.rounds.end());
  return {{"kernel", series.kernel},
          {"kernel_full", series.fullName},
          {"case", series.bench.name()},
          {"mode", series.mode},
          {"us", us},
          {"us_low", *low},
          {"us_high", *high},
          {"gbs", rate},
          {"share", rate / ceiling},
          {"like_bf16", series.likeBf16}};
}

/// Results of one pool of memory beside the ceiling that all pools so far have shown.
class Report {
public:
  explicit Report(cuda::Stream stream) : stream(stream) {}

  /// Times the series of each case in turn.
  void add(const Options &options, const Buffer &memory,
           const std::function<std::vector<Series>(const BenchCase &)> &seriesOfCase) {
    ReadCeiling reader(stream, memory.data(), memory.bytes());
    reader.measure(12);
    std::vector<Series> results;
    for (const BenchCase &bench : options.cases) {
      std::vector<Series> series = seriesOfCase(bench);
      measure(options.rounds, series, reader);
      results.insert(results.end(), series.begin(), series.end());
    }
    ceiling = std::max(ceiling, reader.measure(12));
    std::printf("read ceiling %.0f GB/s\n", ceiling);
    for (const Series &series : results)
      print(rows.emplace_back(resultOf(series, ceiling)));
    std::fflush(stdout);
  }

  /// Without any pool: the ceiling alone.
  void addCeiling(Device &device) {
    const Buffer memory(device, size_t(1) << 31);
    memory.fill(0x5a);
    ReadCeiling reader(stream, memory.data(), memory.bytes());
    std::printf("read ceiling %.0f GB/s\n", ceiling = reader.measure(24));
  }

  Json document(const std::string &card) const {
    return {{"card", card}, {"ceiling_gbs", ceiling}, {"rows", rows}};
  }

private:
  static void print(const Json &row) {
    std::printf("time %-16s %-10s %-8s %8.2f us  %8.2f to %8.2f  %5.0f GB/s  %5.1f %%\n",
                row["kernel"].get_ref<const std::string &>().c_str(),
                row["case"].get_ref<const std::string &>().c_str(),
                row["mode"].get_ref<const std::string &>().c_str(), double(row["us"]),
                double(row["us_low"]), double(row["us_high"]), double(row["gbs"]),
                100 * double(row["share"]));
  }

  cuda::Stream stream;
  double ceiling = 0;
  Json rows = Json::array();
};

int run(const Options &options) {
  installLaunchFilter();
  std::unique_ptr<Device> device = openCudaDevice();
  Report report(static_cast<cuda::Stream>(device->stream()));
  for (const auto &[name, path] : options.libraries) {
    Workload work(*device, name, path, options.page, options.pages);
    report.add(options, work.memory(),
               [&](const BenchCase &bench) { return seriesOf(options, work, bench); });
  }
  if (options.bf16) {
    Bf16Decode base(*device, options.pages);
    report.add(options, base.memory(), [&](const BenchCase &bench) {
      return std::vector<Series>{{"bf16",
                                  "bf16_decode",
                                  "decode",
                                  bench,
                                  base.bytesOf(bench),
                                  [&base, bench] { return base.capture(bench); },
                                  true,
                                  {}}};
    });
  }
  if (options.libraries.empty() && !options.bf16)
    report.addCeiling(*device);
  const std::string text =
      report.document(device->name()).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!options.json.empty())
    if (std::string error = writeFile(options.json, {{text.data(), text.size()}}); !error.empty())
      throw std::runtime_error(error);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception &error) {
    std::fprintf(stderr, "kvq-bench: %s\n", error.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kvq-run: a library on a trace, and how far its results are from exact ones.
#include "tools/kvq-run/Measure.h"

#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/flags/usage.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <exception>

ABSL_FLAG(std::string, trace, "",
          "the trace: post-RoPE queries, keys and values of a model (docs/trace-format.md)");
ABSL_FLAG(std::string, target, "cpu", "where the kernels run: cpu or cuda");
ABSL_FLAG(int32_t, page, 0, "tokens of a page; 0: the library's default");
ABSL_FLAG(int32_t, threads, 0, "threads of the kernels; 0: one per processor");
ABSL_FLAG(bool, json, false, "print one JSON object instead of a table");

namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kLegend = R"(
method    relative l2 error of exact attention over the dequantized cache, against the original one
kernel    of the kernels' output, against exact attention over the dequantized cache
rounding  of that exact attention, rounded to the element type of the output, against itself
total     of the kernels' output, against exact attention over the original cache; by W_O: behind it
lse       largest difference of the log-sum-exp
bits/el   bits per element of K and V, parameters and padding counted
)";

int fail(const std::string &message) {
  std::fprintf(stderr, "kvq-run: %s\n", message.c_str());
  return 1;
}

Json errorsOf(const kvq::LayerErrors &errors) {
  return {{"method_error", errors.method.relative()},
          {"kernel_error", errors.kernel.relative()},
          {"total_error", errors.total.relative()},
          {"rounding_error", errors.rounding.relative()},
          {"lse_method_error", errors.lseMethod},
          {"lse_kernel_error", errors.lseKernel},
          {"projected_method_error", errors.projectedMethod.relative()},
          {"projected_total_error", errors.projectedTotal.relative()}};
}

void printJson(const std::string &library, const kvq::Trace &trace, const kvq::Report &report) {
  Json layers = Json::array();
  for (const kvq::LayerErrors &errors : report.layers) {
    Json entry = {{"layer", errors.layer},
                  {"bits_per_element", report.bitsPerElement},
                  {"cache_sha256", errors.digests.cache},
                  {"out_sha256", errors.digests.out},
                  {"lse_sha256", errors.digests.lse}};
    entry.update(errorsOf(errors));
    layers.push_back(entry);
  }
  Json total = {{"bits_per_element", report.bitsPerElement}};
  total.update(errorsOf(report.total));
  const Json document = {{"library", library},         {"target", absl::GetFlag(FLAGS_target)},
                         {"name", report.name},        {"model", trace.model},
                         {"text", trace.text},         {"tokens", trace.tokens},
                         {"queries", trace.queries()}, {"page", report.page},
                         {"key_bits", report.keyBits}, {"value_bits", report.valueBits},
                         {"layers", layers},           {"total", total}};
  std::printf("%s\n", document.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

void printRow(const std::string &name, double bits, const kvq::LayerErrors &errors) {
  std::printf("%-7s %8.3f %10.3e %10.3e %10.3e %10.3e %11.3e %11.3e %12.3e\n", name.c_str(), bits,
              errors.method.relative(), errors.kernel.relative(), errors.rounding.relative(),
              errors.total.relative(), errors.lseMethod, errors.lseKernel,
              errors.projectedTotal.relative());
}

void printTable(const kvq::Trace &trace, const kvq::Report &report) {
  std::printf(
      "%s: K %lld bits, V %lld bits, page %lld tokens; %s, %lld tokens, %lld queries; on %s\n\n",
      report.name.c_str(), (long long)report.keyBits, (long long)report.valueBits,
      (long long)report.page, trace.model.c_str(), (long long)trace.tokens,
      (long long)trace.queries(), absl::GetFlag(FLAGS_target).c_str());
  std::printf("%-7s %8s %10s %10s %10s %10s %11s %11s %12s\n", "layer", "bits/el", "method",
              "kernel", "rounding", "total", "lse method", "lse kernel", "total by W_O");
  for (const kvq::LayerErrors &errors : report.layers)
    printRow(std::to_string(errors.layer), report.bitsPerElement, errors);
  printRow("all", report.bitsPerElement, report.total);
  for (const kvq::LayerErrors &errors : report.layers)
    std::printf("%sbytes of the cache of layer %lld: sha256 %s\n",
                &errors == &report.layers.front() ? "\n" : "", (long long)errors.layer,
                errors.digests.cache.c_str());
  std::fputs(kLegend, stdout);
}

int run(const std::string &path) {
  kvq::RunOptions options;
  options.page = absl::GetFlag(FLAGS_page), options.threads = absl::GetFlag(FLAGS_threads);
  const std::string target = absl::GetFlag(FLAGS_target);
  if (target != "cpu" && target != "cuda")
    return fail("--target: expected cpu or cuda, got '" + target + "'");
  options.target = target == "cuda" ? KVQ_TARGET_CUDA : KVQ_TARGET_CPU;
  kvq::Trace trace;
  if (std::string error = kvq::openTrace(absl::GetFlag(FLAGS_trace), trace); !error.empty())
    return fail(error);
  kvq::Runner runner;
  if (std::string error = kvq::Runner::open(path, options, runner); !error.empty())
    return fail(error);
  kvq::Report report;
  if (std::string error = runner.run(trace, report); !error.empty())
    return fail("'" + path + "' on '" + absl::GetFlag(FLAGS_trace) + "': " + error);
  if (absl::GetFlag(FLAGS_json))
    printJson(path, trace, report);
  else
    printTable(trace, report);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  absl::SetProgramUsageMessage(
      "fills a quantized cache with the keys and values of a trace, decodes its queries with the\n"
      "kernels of a library, and compares with exact attention.\n\n"
      "usage: kvq-run LIBRARY --trace TRACE [--target cpu|cuda] [--page N] [--threads N] "
      "[--json]\n\n"
      "LIBRARY is a .kvqlib file made by kvq-compile for the target; the code of the CPU target "
      "runs\n"
      "in this process, so use libraries that you trust. Exit status 1 on an error.");
  const std::vector<char *> arguments = absl::ParseCommandLine(argc, argv);
  if (arguments.size() != 2)
    return fail("expected one library, got " + std::to_string(arguments.size() - 1) +
                "; see --help");
  if (absl::GetFlag(FLAGS_trace).empty())
    return fail("expected --trace FILE, got none; see --help");
  if (absl::GetFlag(FLAGS_page) < 0)
    return fail("--page: expected a number of tokens, got " +
                std::to_string(absl::GetFlag(FLAGS_page)));
  try {
    return run(arguments[1]);
  } catch (const std::exception &error) {
    return fail(error.what());
  }
}

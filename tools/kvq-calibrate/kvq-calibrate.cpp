// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kvq-calibrate: traces to a calibration file, and the check of one.
#include "calib/solvers/KeyMean.h"

#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/flags/usage.h>

#include <cstdio>
#include <string>
#include <vector>

ABSL_FLAG(std::string, method, "mean",
          "what to fit. `mean`: the mean key of each layer and KV head, for kvq.center");
ABSL_FLAG(std::string, o, "", "the calibration file to write");
ABSL_FLAG(
    std::string, check, "",
    "a calibration file to check (format, shapes, finite values, digest) instead of making one");

namespace {

int fail(const std::string &message) {
  std::fprintf(stderr, "kvq-calibrate: %s\n", message.c_str());
  return 1;
}

void describe(const std::string &path, const kvq::Calibration &calibration) {
  std::printf("%s: method %s, model '%s', %zu layers, %lld KV heads of dim %lld, %lld tokens "
              "(traces: %zu)\n",
              path.c_str(), calibration.method.c_str(), calibration.model.c_str(),
              calibration.layers.size(), (long long)calibration.kvHeads,
              (long long)calibration.headDim, (long long)calibration.tokens(),
              calibration.data.size());
}

int check(const std::string &path) {
  kvq::Calibration calibration;
  if (std::string error = kvq::readCalibration(path, calibration); !error.empty())
    return fail(error);
  describe(path, calibration);
  return 0;
}

int calibrate(const std::vector<std::string> &traces, const std::string &output) {
  kvq::KeyMeanSolver solver;
  for (const std::string &path : traces) {
    kvq::Trace trace;
    if (std::string error = kvq::openTrace(path, trace); !error.empty())
      return fail(error);
    if (std::string error = solver.add(trace); !error.empty())
      return fail(error.insert(0, "'" + path + "': "));
  }
  const kvq::Calibration calibration = solver.solve();
  if (std::string error = kvq::writeCalibration(output, calibration); !error.empty())
    return fail(error);
  describe(output, calibration);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  absl::SetProgramUsageMessage(
      "fits the constants of a quantized cache to traces of a model.\n\n"
      "usage: kvq-calibrate [--method mean] TRACE... -o FILE\n"
      "       kvq-calibrate --check FILE\n\n"
      "TRACE is a safetensors file of post-RoPE queries, keys and values (docs/trace-format.md); "
      "several\n"
      "traces must be of the same model and layers, and count by their tokens. FILE is a "
      "calibration file\n"
      "(docs/calibration-format.md) for kvq-compile --calibration. Exit status 1 on an error.");
  const std::vector<char *> arguments = absl::ParseCommandLine(argc, argv);
  const std::vector<std::string> traces(arguments.begin() + 1, arguments.end());
  const std::string method = absl::GetFlag(FLAGS_method), output = absl::GetFlag(FLAGS_o);
  const std::string checked = absl::GetFlag(FLAGS_check);
  if (!checked.empty())
    return traces.empty() && output.empty() ? check(checked)
                                            : fail("--check takes no trace and no -o");
  if (method != "mean")
    return fail("--method: expected mean, got '" + method + "'");
  if (traces.empty())
    return fail("expected a trace, got none; see --help");
  if (output.empty())
    return fail("expected -o FILE, got none; see --help");
  return calibrate(traces, output);
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// gpu-check: the kernels of libraries against the oracle, on the device that runs them.
#include "runtime/format/sha256.h"
#include "tools/device/Flags.h"
#include "tools/gpu-check/Checks.h"
#include "tools/gpu-check/Report.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace kvq;

constexpr const char *kUsage = R"(usage: gpu-check [options] LIBRARY...
Compares the kernels of each library (.kvqlib) with the oracle: bytes that append writes, and the
output of decode against float64 attention over the dequantized cache. Exit status 0 if all passed.
  --target cpu|cuda    which kernels (default: cuda)
  --data KINDS         of random, heavy, dominant, and each with +mean (default: all six)
  --lengths NUMBERS    of sequences; above 16384 alone, with one KV head
                       (default: 0,1,15,16,17,63,64,65,4095,4096,4097,131072)
  --large              also a pool of 4.5 GiB (cuda)
  --part I/N           only every N-th library, from the I-th (1 to N)
  --report FILE        written after each library; libraries that it says have passed in the same
                       suite and plan are not run again
  --verbose            a line for each check
A fault of a kernel ends the process that ran it: the library has failed, the next ones still run.
)";

constexpr int kNoDevice = 2; ///< exit status of a worker

constexpr const char *kAllData = "random,random+mean,heavy,heavy+mean,dominant,dominant+mean";
constexpr const char *kAllLengths = "0,1,15,16,17,63,64,65,4095,4096,4097,131072";

struct Options {
  bool cuda = true, verbose = false, complete = false;
  CheckPlan plan;
  std::string planText, report;
  std::vector<std::string> libraries;
};

/// The libraries of part "I/N".
std::vector<std::string> partOf(const std::vector<std::string> &all, const std::string &text) {
  const std::vector<std::string> numbers = splitText(text, '/');
  if (numbers.size() != 2)
    throw std::runtime_error("--part: expected I/N, got '" + text + "'");
  const int64_t part = parseNumber("--part", numbers[0], 1);
  const int64_t parts = parseNumber("--part", numbers[1], part);
  std::vector<std::string> out;
  for (size_t i = size_t(part - 1); i < all.size(); i += size_t(parts))
    out.push_back(all[i]);
  return out;
}

Options parse(int argc, char **argv) {
  const Flags flags(argc, argv, {"target", "data", "lengths", "part", "report"},
                    {"large", "verbose", "help"});
  Options out;
  if (flags.has("help")) {
    std::fputs(kUsage, stdout);
    std::exit(0);
  }
  const std::string target = flags.text("target", "cuda");
  if (target != "cpu" && target != "cuda")
    throw std::runtime_error("--target: expected cpu or cuda, got '" + target + "'");
  out.cuda = target == "cuda";
  for (const std::string &name : flags.list("data", kAllData))
    out.plan.kinds.push_back(RowKind::parse(name));
  for (const std::string &length : flags.list("lengths", kAllLengths))
    out.plan.lengths.push_back(parseNumber("--lengths", length, 0));
  if (out.plan.kinds.empty() || out.plan.lengths.empty())
    throw std::runtime_error("--data, --lengths: expected at least one, got none");
  out.plan.large = flags.has("large");
  if (out.plan.large && !out.cuda)
    throw std::runtime_error("--large: expected --target cuda, got cpu");
  out.complete = out.plan.large && !flags.has("data") && !flags.has("lengths");
  out.planText = target + (out.plan.large ? " large " : " ") + flags.text("data", kAllData) + " " +
                 flags.text("lengths", kAllLengths);
  out.report = flags.text("report", "");
  out.verbose = flags.has("verbose");
  out.libraries = partOf(flags.positional(), flags.text("part", "1/1"));
  if (flags.positional().empty())
    throw std::runtime_error("expected a library, got none; see --help");
  return out;
}

std::string digestOf(const std::string &path) {
  FileBytes bytes;
  if (std::string error = FileBytes::read(path, bytes); !error.empty())
    throw std::runtime_error(error);
  return digestText(sha256(bytes.span().data, bytes.span().size));
}

void printCheck(const CheckResult &check) {
  std::printf("  %-44s %s  error %.2e  worst head %.2e  lse %.2e  %.2f s\n", check.name.c_str(),
              check.failure.empty() ? "ok  " : "FAIL", check.error, check.worstHead, check.lse,
              check.seconds);
  std::fflush(stdout);
}

LibraryRun runLibrary(const std::string &path, const Options &options, Device &device) {
  const auto start = std::chrono::steady_clock::now();
  LibraryRun run;
  run.name = path, run.complete = options.complete, run.device = device.name();
  try {
    run.digest = digestOf(path);
    const Subject subject(path, device);
    run.name = subject.name;
    run.manifest = kvq_manifest_text(subject.library.get());
    checkLibrary(subject, options.plan, [&](const CheckResult &check) {
      run.checks.push_back(check);
      if (options.verbose)
        printCheck(check);
    });
  } catch (const std::exception &error) {
    run.failure = error.what();
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return run;
}

/// One line for a library: the worst error of each kind of number, and the first failure.
void printRun(const LibraryRun &run, bool passed) {
  double error = 0, head = 0, lse = 0;
  std::string failure = run.failure;
  for (const CheckResult &check : run.checks) {
    error = std::max(error, check.error), head = std::max(head, check.worstHead);
    lse = std::max(lse, check.lse);
    if (failure.empty() && !check.failure.empty())
      failure = check.name + ": " + check.failure;
  }
  std::printf("%s %s: %zu checks, error %.2e, worst head %.2e, lse %.2e, %.1f s\n",
              passed ? "pass" : "FAIL", run.name.c_str(), run.checks.size(), error, head, lse,
              run.seconds);
  if (!failure.empty())
    std::printf("     %s\n", failure.c_str());
  std::fflush(stdout);
}

/// Checks libraries one after the other and writes a line about each to `pipe`. Ends early when the
/// device is lost.
void work(const Options &options, const std::vector<std::string> &libraries, Device &device,
          int pipe) {
  for (const std::string &path : libraries) {
    const LibraryRun run = runLibrary(path, options, device);
    const LibraryReport report = reportLibrary(run);
    printRun(run, report.passed);
    const std::string line = report.line + "\n";
    for (size_t done = 0; done < line.size();) {
      const ssize_t written = write(pipe, line.data() + done, line.size() - done);
      if (written < 0)
        return;
      done += size_t(written);
    }
    if (!run.failure.empty())
      device.synchronize();
  }
}

/// The process that runs kernels. Ends without clean-up, in which the driver may hang after a
/// fault.
[[noreturn]] void workerMain(const Options &options, const std::vector<std::string> &libraries,
                             int pipe) {
  int status = kNoDevice;
  try {
    std::unique_ptr<Device> device = options.cuda ? openCudaDevice() : openHostDevice();
    status = 0;
    work(options, libraries, *device, pipe);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "gpu-check: %s\n", error.what());
  }
  std::fflush(nullptr);
  _exit(status);
}

/// Runs `libraries` in another process and returns what it said of them, in their order.
std::vector<LibraryReport> runWorker(const Options &options,
                                     const std::vector<std::string> &libraries,
                                     const std::function<void(const LibraryReport &)> &done) {
  int pipes[2];
  if (pipe(pipes) != 0)
    throw std::runtime_error("cannot make a pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0)
    throw std::runtime_error("cannot start a process");
  if (child == 0) {
    close(pipes[0]);
    workerMain(options, libraries, pipes[1]);
  }
  close(pipes[1]);
  std::vector<LibraryReport> reports;
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(pipes[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, size_t(size));
    for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      reports.push_back(parseLibraryReport(text.substr(0, end)));
      done(reports.back());
    }
  }
  close(pipes[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoDevice)
    throw std::runtime_error("nothing was checked: the device cannot be used");
  return reports;
}

int run(const Options &options) {
  std::map<std::string, LibraryReport> reports; // by digest of the file
  if (!options.report.empty())
    for (const LibraryReport &report : readReport(options.report, options.planText))
      if (report.passed)
        reports[report.digest] = report;
  std::vector<std::string> todo;
  for (const std::string &path : options.libraries)
    if (!reports.count(digestOf(path)))
      todo.push_back(path);
  const size_t before = options.libraries.size() - todo.size();
  if (before)
    std::printf("%zu libraries have passed before\n", before);
  size_t passed = before;
  auto record = [&](const LibraryReport &report) {
    reports[report.digest] = report;
    passed += report.passed;
    std::vector<LibraryReport> all;
    for (const auto &[digest, entry] : reports)
      all.push_back(entry);
    if (!options.report.empty())
      writeReport(options.report, options.planText, all);
  };
  for (size_t next = 0; next < todo.size();) {
    const std::vector<std::string> rest(todo.begin() + int64_t(next), todo.end());
    const size_t done = runWorker(options, rest, record).size();
    next += done;
    if (next == todo.size() || done) // a lost device ends a worker after its report
      continue;
    LibraryRun lost;
    lost.name = todo[next], lost.digest = digestOf(todo[next]);
    lost.failure = "the process that ran it ended before it could say why";
    const LibraryReport report = reportLibrary(lost);
    printRun(lost, false);
    record(report);
    ++next;
  }
  std::printf("%zu of %zu libraries passed\n", passed, options.libraries.size());
  return passed == options.libraries.size() ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception &error) {
    std::fprintf(stderr, "gpu-check: %s\n", error.what());
    return 1;
  }
}

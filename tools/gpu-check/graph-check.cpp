// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// graph-check: append, plan and decode captured in a CUDA graph, replayed over other tokens,
// lengths, pages and batches, against the same calls without a graph; and what the runtime asked of
// the driver meanwhile.
#include "tools/device/CudaDriver.h"
#include "tools/gpu-check/GraphStep.h"
#include "tools/gpu-check/TokenCheck.h"

#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>

namespace kvq {
namespace {

using namespace cuda;

constexpr const char *kUsage = R"(usage: graph-check LIBRARY...
Captures append, plan and decode of each library (.kvqlib) in a CUDA graph, and with windows commit
and demote, for 1 and for 4 query tokens, split by load and in fixed splits, and replays it with
other lengths, pages and numbers of sequences: the bits must be those of the calls without a graph.
While it captures, the runtime must not allocate, copy or load; it is given a driver that counts,
and a step leaves the free memory of the device as it is. For every q_length kvq_supports must say
what a capture gives. Lengths beyond the page table must be clamped to it, and told. Prints the
seconds that opening, loading and a first step of all libraries take. Exit status 0 if all is as it
should be.
)";

constexpr int64_t kSteps = 3;
constexpr int kRelaxed = 2; ///< mode of a capture

/// The driver that the runtime sees: launches counted apart from all else.
struct CountingDriver {
  Driver driver;
  int launches = 0, others = 0;
};

CountingDriver &counting() {
  static CountingDriver it;
  return it;
}

Result countLaunch(const LaunchConfig *config, Function function, void **parameters, void **extra) {
  ++counting().launches;
  return toolDriver().base->launchKernelEx(config, function, parameters, extra);
}
Result countAlloc(DevicePointer *pointer, size_t bytes) {
  ++counting().others;
  return toolDriver().base->memAlloc(pointer, bytes);
}
Result countFree(DevicePointer pointer) {
  ++counting().others;
  return toolDriver().base->memFree(pointer);
}
Result countCopy(DevicePointer to, const void *from, size_t bytes) {
  ++counting().others;
  return toolDriver().base->memcpyHtoD(to, from, bytes);
}
Result countLoad(Module *module, const void *image, unsigned options, JitOption *keys,
                 void **values) {
  ++counting().others;
  return toolDriver().base->moduleLoadDataEx(module, image, options, keys, values);
}

/// The runtime's table has no function that waits for a device: it cannot synchronize.
void installCountingDriver() {
  Driver &driver = counting().driver;
  driver = *toolDriver().base;
  driver.launchKernelEx = countLaunch;
  driver.memAlloc = countAlloc, driver.memFree = countFree;
  driver.memcpyHtoD = countCopy, driver.moduleLoadDataEx = countLoad;
  setFindDriver([](const Driver *&out) -> Status {
    out = &counting().driver;
    return {};
  });
}

/// A graph of one step.
class StepGraph {
public:
  /// Throws std::runtime_error when a call of the step or of the driver refuses.
  StepGraph(const Subject &subject, GraphStep &step)
      : stream(static_cast<Stream>(subject.device.stream())) {
    const ToolDriver &driver = toolDriver();
    requireCuda("cuStreamBeginCapture", driver.streamBeginCapture(stream, kRelaxed));
    std::string refused;
    try {
      step.launch();
    } catch (const std::runtime_error &error) {
      refused = error.what(); // the stream must leave the capture all the same
    }
    Graph graph = nullptr;
    const Result ended = driver.streamEndCapture(stream, &graph);
    if (!refused.empty())
      throw std::runtime_error(refused);
    requireCuda("cuStreamEndCapture", ended);
    requireCuda("cuGraphInstantiate", driver.graphInstantiate(&exec, graph, 0));
    requireCuda("cuGraphDestroy", driver.graphDestroy(graph));
  }
  StepGraph(const StepGraph &) = delete;
  StepGraph &operator=(const StepGraph &) = delete;
  ~StepGraph() { toolDriver().graphExecDestroy(exec); }

  void launch() const { requireCuda("cuGraphLaunch", toolDriver().graphLaunch(exec, stream)); }

private:
  Stream stream;
  GraphExec exec = nullptr;
};

size_t freeMemory() {
  size_t free = 0, all = 0;
  requireCuda("cuMemGetInfo", toolDriver().memGetInfo(&free, &all));
  return free;
}

/// Empty, or what went wrong.
std::string checkGraph(const Subject &subject, int64_t qLength, int64_t splitTokens) {
  const std::unique_ptr<GraphStep> step = makeStep(subject, qLength, splitTokens);
  step->randomize(0);
  subject.device.synchronize();
  const int launches = counting().launches, others = counting().others;
  const StepGraph graph(subject, *step);
  if (counting().launches - launches != step->launches() || counting().others != others)
    return "expected " + std::to_string(step->launches()) +
           " launches and nothing else of the driver, got " +
           std::to_string(counting().launches - launches) + " and " +
           std::to_string(counting().others - others);
  for (int64_t i = 1; i <= kSteps; ++i) {
    step->randomize(uint64_t(i));
    graph.launch();
    const std::vector<uint8_t> replayed = step->results();
    step->randomize(uint64_t(i));
    step->launch();
    if (replayed != step->results())
      return "replay " + std::to_string(i) + ": the bits differ from those without a graph";
  }
  const size_t before = freeMemory();
  step->launch();
  subject.device.synchronize();
  return freeMemory() == before ? "" : "a step changed how much memory of the device is free";
}

/// A length beyond the table is clamped to it, and told. Without windows: else the tokens beyond
/// the table would be the ring's.
std::string checkClamp(const Subject &subject) {
  if (hasWindows(subject))
    return "";
  const std::unique_ptr<GraphStep> step = makeStep(subject, 1, 0);
  step->randomize(1);
  step->lengthen(0);
  step->launch();
  const std::vector<uint8_t> expected = step->results();
  if (step->faults())
    return "lengths that the table holds: expected no fault, got " + std::to_string(step->faults());
  step->randomize(1);
  step->lengthen(1000);
  step->launch();
  if (step->results() != expected)
    return "lengths beyond the table: the bits differ from those of the longest that it holds";
  return step->faults() == KVQ_FAULT_LENGTH
             ? ""
             : "lengths beyond the table: expected a fault, got " + std::to_string(step->faults());
}

/// Whether a step with so many query tokens can be captured: what kvq_supports says, and what a
/// capture gives. Empty if they agree.
std::string checkCapability(const Subject &subject, int64_t qLength) {
  kvq_use use = {};
  use.size = sizeof use;
  use.q_length = int32_t(qLength);
  use.flags = KVQ_USE_CAPTURE | (hasWindows(subject) ? KVQ_USE_DEMOTE : 0u);
  const bool said = kvq_supports(subject.library.get(), &use, nullptr, 0, nullptr) == KVQ_OK;
  std::string refused;
  try {
    const std::unique_ptr<GraphStep> step = makeStep(subject, qLength, 0);
    step->randomize(0);
    const StepGraph graph(subject, *step);
    graph.launch();
    subject.device.synchronize();
  } catch (const std::runtime_error &error) {
    refused = error.what();
  }
  if (said == refused.empty())
    return "";
  return said ? "kvq_supports says that it can be captured: " + refused
              : "kvq_supports says that it cannot be captured, and it can";
}

double secondsOf(const std::function<void()> &work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Opening, loading and the first step of each library, one after the other, in seconds.
double coldStart(const std::vector<std::string> &paths, Device &device) {
  double seconds = 0;
  for (const std::string &path : paths) {
    std::unique_ptr<Subject> subject;
    seconds += secondsOf([&] {
      subject = std::make_unique<Subject>(path, device);
      require("load", kvq_load(subject->library.get(), -1));
    });
    const std::unique_ptr<GraphStep> step = makeStep(*subject, 1, 0);
    step->randomize(0);
    device.synchronize();
    seconds += secondsOf([&] {
      step->launch();
      device.synchronize();
    });
  }
  return seconds;
}

/// How many checks failed.
int checkLibrary(const std::string &path, Device &device) {
  const Subject subject(path, device);
  require("load", kvq_load(subject.library.get(), -1));
  int failures = 0;
  auto report = [&](const std::string &what, const std::string &failure) {
    if (failure.empty())
      return;
    ++failures;
    std::printf("FAIL %s, %s: %s\n", subject.name.c_str(), what.c_str(), failure.c_str());
  };
  report("clamp", checkClamp(subject));
  for (int64_t qLength : {1, 4})
    for (int64_t split : {0, 512})
      report("q_length " + std::to_string(qLength) + ", split_tokens " + std::to_string(split),
             checkGraph(subject, qLength, split));
  for (int64_t qLength = 1; qLength <= KVQ_MAX_Q_LENGTH + 1; ++qLength)
    report("q_length " + std::to_string(qLength), checkCapability(subject, qLength));
  return failures;
}

int run(const std::vector<std::string> &paths) {
  installCountingDriver();
  const std::unique_ptr<Device> device = openCudaDevice();
  std::printf("opened %zu libraries, each with a first step, in %.3f s\n", paths.size(),
              coldStart(paths, *device));
  int failures = 0;
  for (const std::string &path : paths)
    failures += checkLibrary(path, *device);
  std::printf("%zu libraries, %d failures\n", paths.size(), failures);
  return failures ? 1 : 0;
}

} // namespace
} // namespace kvq

int main(int argc, char **argv) {
  const std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.empty() || paths.front().rfind("--", 0) == 0) {
    std::fputs(kvq::kUsage, paths.empty() || paths.front() != "--help" ? stderr : stdout);
    return paths.empty() || paths.front() != "--help" ? 2 : 0;
  }
  try {
    return kvq::run(paths);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "graph-check: %s\n", error.what());
    return 1;
  }
}

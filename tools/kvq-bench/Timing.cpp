// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-bench/Timing.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace kvq {
namespace {

using namespace cuda;

constexpr int kPauseMicroseconds = 15000, kWarmReplays = 2, kReplays = 11;
constexpr int kRelaxedCapture = 2; ///< CU_STREAM_CAPTURE_MODE_RELAXED
constexpr int kReadThreads = 512, kReadBlocksPerProcessor = 64;

const char kReadAll[] = {
#include "ReadAll.inc" // made from read_all.ptx
};

} // namespace

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

TimedGraph::TimedGraph(Stream stream, int launches, const std::function<void(int)> &launch)
    : driver(toolDriver()), stream(stream), launches(launches) {
  requireCuda("cuEventCreate", driver.eventCreate(&start, 0));
  requireCuda("cuEventCreate", driver.eventCreate(&end, 0));
  requireCuda("cuStreamBeginCapture", driver.streamBeginCapture(stream, kRelaxedCapture));
  for (int i = 0; i < launches; ++i)
    launch(i);
  Graph graph = nullptr;
  requireCuda("cuStreamEndCapture", driver.streamEndCapture(stream, &graph));
  requireCuda("cuGraphInstantiate", driver.graphInstantiate(&exec, graph, 0));
  requireCuda("cuGraphDestroy", driver.graphDestroy(graph));
}

TimedGraph::TimedGraph(TimedGraph &&other) noexcept
    : driver(other.driver), stream(other.stream), launches(other.launches),
      exec(std::exchange(other.exec, nullptr)), start(std::exchange(other.start, nullptr)),
      end(std::exchange(other.end, nullptr)) {}

TimedGraph::~TimedGraph() {
  if (exec)
    driver.graphExecDestroy(exec);
  for (Event event : {start, end})
    if (event)
      driver.eventDestroy(event);
}

double TimedGraph::replay() {
  requireCuda("cuEventRecord", driver.eventRecord(start, stream));
  requireCuda("cuGraphLaunch", driver.graphLaunch(exec, stream));
  requireCuda("cuEventRecord", driver.eventRecord(end, stream));
  requireCuda("cuEventSynchronize", driver.eventSynchronize(end));
  float milliseconds = 0;
  requireCuda("cuEventElapsedTime", driver.eventElapsedTime(&milliseconds, start, end));
  return 1e3 * milliseconds / launches;
}

double TimedGraph::round() {
  usleep(kPauseMicroseconds);
  for (int i = 0; i < kWarmReplays; ++i)
    replay();
  std::vector<double> times;
  for (int i = 0; i < kReplays; ++i)
    times.push_back(replay());
  return median(times);
}

PtxKernel::PtxKernel(const char *text, const char *name) : driver(toolDriver()) {
  const Driver &base = *driver.base;
  requireCuda("cuModuleLoadData", base.moduleLoadDataEx(&module, text, 0, nullptr, nullptr));
  requireCuda("cuModuleGetFunction", base.moduleGetFunction(&function, module, name));
}

PtxKernel::~PtxKernel() { driver.base->moduleUnload(module); }

void PtxKernel::allowShared(int bytes) const {
  requireCuda("cuFuncSetAttribute", driver.base->funcSetAttribute(
                                        function, FunctionAttribute::maxDynamicSharedBytes, bytes));
}

void PtxKernel::launch(Stream stream, int blocks, int threads, int sharedBytes, bool early,
                       void **parameters) const {
  LaunchAttribute attribute = {};
  attribute.id = LaunchAttribute::kProgrammaticStreamSerialization;
  attribute.value.allowed = 1;
  LaunchConfig config = {};
  config.gridX = uint32_t(blocks), config.gridY = config.gridZ = 1;
  config.blockX = uint32_t(threads), config.blockY = config.blockZ = 1;
  config.sharedBytes = uint32_t(sharedBytes), config.stream = stream;
  config.attributes = &attribute, config.attributeCount = early ? 1 : 0;
  requireCuda("cuLaunchKernelEx",
              driver.base->launchKernelEx(&config, function, parameters, nullptr));
}

int multiprocessors() {
  const Driver &base = *toolDriver().base;
  DeviceOrdinal device = 0;
  int count = 0;
  requireCuda("cuCtxGetDevice", base.ctxGetDevice(&device));
  requireCuda("cuDeviceGetAttribute",
              base.deviceGetAttribute(&count, DeviceAttribute::multiprocessors, device));
  return count;
}

ReadCeiling::ReadCeiling(Stream stream, DevicePointer memory, size_t bytes)
    : stream(stream), memory(memory), bytes(bytes), kernel(kReadAll, "read_all") {
  requireCuda("cuMemAlloc", toolDriver().base->memAlloc(&result, 4));
}

ReadCeiling::~ReadCeiling() { toolDriver().base->memFree(result); }

double ReadCeiling::measure(int passes) {
  uint64_t items = bytes / 16;
  void *parameters[] = {static_cast<void *>(&memory), &items, static_cast<void *>(&result)};
  const int blocks = kReadBlocksPerProcessor * multiprocessors();
  TimedGraph pass(stream, 1,
                  [&](int) { kernel.launch(stream, blocks, kReadThreads, 0, false, parameters); });
  for (int i = 0; i < passes; ++i)
    best = std::max(best, double(16 * items) / pass.replay() * 1e-3);
  return best;
}

} // namespace kvq

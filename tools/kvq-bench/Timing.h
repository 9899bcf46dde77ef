// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times of work on a CUDA stream: graphs of several launches, replayed.
#pragma once

#include "tools/device/CudaDriver.h"

#include <functional>
#include <vector>

namespace kvq {

/// Median; 0 of none.
double median(std::vector<double> values);

/// Work captured once into a graph.
class TimedGraph {
public:
  /// `launch(i)` puts launch i of `launches` into the stream.
  TimedGraph(cuda::Stream stream, int launches, const std::function<void(int)> &launch);
  TimedGraph(TimedGraph &&other) noexcept;
  TimedGraph &operator=(TimedGraph &&) = delete;
  ~TimedGraph();

  /// One round: after a pause of 15 ms and two replays, the median of 11; microseconds of a launch.
  double round();

  /// Microseconds of a launch in one replay.
  double replay();

private:
  const cuda::ToolDriver &driver;
  cuda::Stream stream;
  int launches;
  cuda::GraphExec exec = nullptr;
  cuda::Event start = nullptr, end = nullptr;
};

/// A kernel of our own, from PTX text that the driver compiles.
class PtxKernel {
public:
  PtxKernel(const char *text, const char *name);
  ~PtxKernel();
  PtxKernel(const PtxKernel &) = delete;
  PtxKernel &operator=(const PtxKernel &) = delete;

  /// Lets a block have that much dynamic shared memory.
  void allowShared(int bytes) const;
  void launch(cuda::Stream stream, int blocks, int threads, int sharedBytes, bool early,
              void **parameters) const;

private:
  const cuda::ToolDriver &driver;
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
};

/// Multiprocessors of the current device.
int multiprocessors();

/// The rate at which `bytes` at `memory` can be read once with 16-byte loads.
class ReadCeiling {
public:
  ReadCeiling(cuda::Stream stream, cuda::DevicePointer memory, size_t bytes);
  ~ReadCeiling();
  ReadCeiling(const ReadCeiling &) = delete;
  ReadCeiling &operator=(const ReadCeiling &) = delete;

  /// Reads all `passes` times; GB/s of the best pass so far.
  double measure(int passes);

private:
  cuda::Stream stream;
  cuda::DevicePointer memory;
  size_t bytes;
  PtxKernel kernel;
  double best = 0;
  cuda::DevicePointer result = nullptr;
};

} // namespace kvq

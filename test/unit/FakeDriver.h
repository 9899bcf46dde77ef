// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A CUDA driver without a device: it answers as it is told, and writes down what is asked of it.
// Memory of the device is memory of the host, kernels do nothing.
#pragma once

#include "kvq/kernel_abi.h"
#include "runtime/lib/cuda/Driver.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kvq::test {

struct Launch {
  std::string kernel;
  uint32_t grid = 0, block = 0, sharedBytes = 0;
  const void *stream = nullptr;
  const void *context = nullptr; ///< that was current
  bool early = false;            ///< programmatic stream serialization
  union {
    kvq_token_kernel_args append;
    kvq_demote_kernel_args demote;
    kvq_gpu_decode_args decode;
  };
};

/// Can be searched without making a string.
template <typename T> using Named = std::map<std::string, T, std::less<>>;

/// One at a time. While it lives, libraries that are opened for CUDA get it.
class FakeDriver {
public:
  FakeDriver();
  FakeDriver(const FakeDriver &) = delete;
  FakeDriver &operator=(const FakeDriver &) = delete;
  ~FakeDriver();

  /// Makes `context` current in this thread; null: none.
  static void setCurrent(const char *context);
  static const void *current();
  /// Sum of all calls so far.
  int total() const;

  // The device.
  int major = 9, minor = 0, multiprocessors = 132, maxSharedBytes = 227 * 1024;
  int maxThreads = 1024, staticSharedBytes = 0;
  std::string missingSymbol;   ///< of every module
  std::string jitLog;          ///< of a module that is refused
  Named<cuda::Result> failing; ///< calls that fail, by the driver's name

  // What happened.
  Named<int> calls; ///< by the driver's name
  std::vector<Launch> launches;
  std::vector<std::string> images;                ///< texts of the modules that were loaded
  Named<int> sharedLimits;                        ///< maxDynamicSharedBytes, by kernel
  int modules = 0, allocations = 0, retained = 0; ///< that live
};

} // namespace kvq::test

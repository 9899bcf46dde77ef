// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults that others reported of kernels for a device: which one runs, when it is loaded, and what
// a call does beside launching. Over a driver that only writes down what it is asked; addresses of
// device memory are numbers, so that a host read of one crashes.
#include "test/unit/CountAllocations.h"
#include "test/unit/CudaExample.h"
#include "test/unit/FakeDriver.h"

using namespace kvq;
using namespace kvq::test;

namespace {

/// Fault: code for one architecture on a device of another fails at the first launch, with no word
/// of what the library has. Opening it tells both.
TEST(CudaFaults, DeviceOfAnotherArchitecture) {
  struct Case {
    std::vector<std::pair<const char *, const char *>> modules;
    int major, minor;
    const char *have; ///< null: it runs
  };
  const Case cases[] = {
      {{{"sm_90a", "cubin"}}, 9, 0, nullptr},
      {{{"sm_90a", "cubin"}}, 12, 0, "sm_90a (cubin)"},
      {{{"sm_90a", "ptx"}}, 12, 1, "sm_90a (ptx)"},
      {{{"sm_90a", "cubin"}, {"sm_120a", "cubin"}}, 12, 0, nullptr},
      {{{"sm_90a", "cubin"}, {"sm_120a", "cubin"}}, 12, 1, "sm_90a (cubin), sm_120a (cubin)"},
      {{{"sm_90a", "cubin"}, {"sm_120a", "cubin"}}, 10, 0, "sm_90a (cubin), sm_120a (cubin)"},
      {{{"sm_100a", "cubin"}}, 9, 0, "sm_100a (cubin)"},
      {{{"sm_89", "cubin"}}, 8, 0, "sm_89 (cubin)"},
      {{{"sm_80", "cubin"}}, 8, 9, nullptr},
      {{{"sm_80", "cubin"}}, 9, 0, "sm_80 (cubin)"},
      {{{"sm_80", "ptx"}}, 12, 1, nullptr},
  };
  for (const Case &c : cases) {
    const std::string device = std::to_string(c.major) + "." + std::to_string(c.minor);
    SCOPED_TRACE(device);
    FakeDriver driver;
    driver.major = c.major, driver.minor = c.minor;
    LibraryContents contents = emptyLibrary();
    for (const auto &[target, level] : c.modules)
      addModule(contents, target, level);
    Handle library;
    const kvq_status status = open(contents, library);
    EXPECT_EQ(status, c.have ? KVQ_UNSUPPORTED : KVQ_OK) << kvq_last_error();
    const std::string message = "the library has kernels for " + std::string(c.have ? c.have : "") +
                                ", the device is Example GPU, compute capability " + device;
    EXPECT_EQ(kvq_last_error() == message, c.have != nullptr) << kvq_last_error();
  }
}

/// Faults: a call allocates, waits or reads device memory inside a capture; a capability is
/// declared that calls do not have. For every number of query tokens and either way of splitting,
/// what supports() says of capture is what the calls do: they launch, and nothing else.
TEST(CudaFaults, CaptureIsAnsweredAsTheCallsAre) {
  for (int64_t split : {0, 512})
    for (int32_t qLength = 1; qLength <= 20; ++qLength) {
      SCOPED_TRACE(std::to_string(qLength) + " query tokens");
      FakeDriver driver;
      const Handle library = openExample();
      ASSERT_EQ(kvq_load(library.get(), -1), KVQ_OK);
      kvq_use use = {};
      use.size = sizeof use, use.q_length = qLength, use.flags = KVQ_USE_CAPTURE;
      const bool served = kvq_supports(library.get(), &use, nullptr, 0, nullptr) == KVQ_OK;
      EXPECT_EQ(served, qLength <= KVQ_MAX_Q_LENGTH);
      kvq_decode_args args = decodeArgs(3);
      args.q_length = qLength, args.split_tokens = split;
      const kvq_token_args append = appendArgs(3 * qLength);
      const Named<int> before = driver.calls;
      const int modules = driver.modules, device = driver.allocations;
      const int allocations = allocationCount();
      const kvq_status status[] = {kvq_append(library.get(), &append),
                                   kvq_plan(library.get(), &args),
                                   kvq_decode(library.get(), &args)};
      const int after = allocationCount();
      EXPECT_EQ(status[0], KVQ_OK);
      EXPECT_EQ(status[1], served ? KVQ_OK : KVQ_INVALID_ARGUMENT);
      EXPECT_EQ(status[2], served ? KVQ_OK : KVQ_INVALID_ARGUMENT);
      if (served) {
        EXPECT_EQ(after, allocations);
      }
      EXPECT_EQ(driver.modules, modules);
      EXPECT_EQ(driver.allocations, device);
      for (const auto &[name, count] : driver.calls) {
        const auto at = before.find(name);
        const int made = count - (at == before.end() ? 0 : at->second);
        EXPECT_TRUE(made == 0 || name == "cuLaunchKernelEx" || name == "cuCtxGetCurrent")
            << name << " " << made;
      }
    }
}

/// Fault: a start loads all kernels of a library, and memory for those that are never called. A
/// library of 100 kernels loads the module of the layer that is called, and no other.
TEST(CudaFaults, UnusedKernelsAreNotLoaded) {
  FakeDriver driver;
  LibraryContents contents = emptyLibrary();
  contents.layers.clear();
  for (uint32_t format = 0; format < 25; ++format) {
    if (format)
      contents.formats.push_back(contents.formats[0]);
    contents.layers.push_back({int32_t(format), 1});
    const size_t first = contents.kernels.size();
    addModule(contents, "sm_90a", "cubin");
    contents.objects.back() = "module " + std::to_string(format);
    for (size_t i = first; i < contents.kernels.size(); ++i)
      contents.kernels[i].format = format;
  }
  ASSERT_EQ(contents.kernels.size(), 100u);
  const Handle library = openExample(contents);
  EXPECT_EQ(driver.modules + driver.allocations, 0);
  kvq_decode_args args = decodeArgs(3);
  args.place.layer = 17;
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK);
  EXPECT_EQ(driver.images, std::vector<std::string>{"module 17"});
  EXPECT_EQ(driver.allocations, 1) << "its constants";
  args.place.layer = 3;
  ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK);
  EXPECT_EQ(driver.images.size(), 2u);
}

/// Fault: a launch of its own for each part of a step, in each layer. A step over any number of
/// sequences and splits is three launches in its first layer and two in the others.
TEST(CudaFaults, LaunchesOfAStepDoNotGrow) {
  for (int64_t batch : {1, 7, 300})
    for (int64_t length : {64, 4096, 131'072})
      for (int64_t qLength : {1, 8}) {
        FakeDriver driver;
        const Handle library = openExample();
        kvq_decode_args args = decodeArgs(batch, length);
        args.q_length = qLength;
        args.table.columns = length / 64, args.table.row_stride = 4 * args.table.columns;
        ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
        EXPECT_EQ(driver.launches.size(), 3u);
        args.flags = KVQ_DECODE_PLANNED;
        ASSERT_EQ(kvq_decode(library.get(), &args), KVQ_OK) << kvq_last_error();
        EXPECT_EQ(driver.launches.size(), 5u);
      }
}

} // namespace

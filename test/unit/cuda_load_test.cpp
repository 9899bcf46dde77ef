// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Opening a library for a CUDA device, choice and load of its module, over a driver that only
// writes down what it is asked.
#include "test/unit/CudaExample.h"
#include "test/unit/FakeDriver.h"

#include <thread>

using namespace kvq;
using namespace kvq::test;

namespace {

TEST(CudaLoad, LoadsOnceAndLate) {
  FakeDriver driver;
  Handle library = openExample();
  EXPECT_EQ(kvq_supports(library.get(), nullptr, nullptr, 0, nullptr), KVQ_OK);
  EXPECT_EQ(driver.modules, 0);
  EXPECT_EQ(driver.allocations, 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        const kvq_token_args append = appendArgs(7);
        const kvq_decode_args decode = decodeArgs(3);
        EXPECT_EQ(kvq_append(library.get(), &append), KVQ_OK) << kvq_last_error();
        EXPECT_EQ(kvq_decode(library.get(), &decode), KVQ_OK) << kvq_last_error();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(driver.launches.size(), 8u * 20 * 4);
  EXPECT_EQ(driver.calls["cuModuleLoadDataEx"], 1);
  EXPECT_EQ(driver.calls["cuMemAlloc"], 1);
  // The threads had no context: each call makes the library's current, and undoes it.
  for (const Launch &launch : driver.launches)
    ASSERT_STREQ(static_cast<const char *>(launch.context), "context");
  EXPECT_EQ(driver.calls["cuCtxPushCurrent"], driver.calls["cuCtxPopCurrent"]);
  library.reset();
  EXPECT_EQ(driver.modules, 0);
  EXPECT_EQ(driver.allocations, 0);
}

TEST(CudaLoad, WithoutACurrentContextItIsDevice0) {
  FakeDriver driver;
  FakeDriver::setCurrent(nullptr);
  Handle library = openExample();
  EXPECT_EQ(driver.retained, 1);
  const kvq_token_args append = appendArgs(7);
  ASSERT_EQ(kvq_append(library.get(), &append), KVQ_OK) << kvq_last_error();
  EXPECT_NE(driver.launches[0].context, nullptr);
  EXPECT_EQ(FakeDriver::current(), nullptr);
  library.reset();
  EXPECT_EQ(driver.retained, 0);
  EXPECT_EQ(driver.modules, 0);
  FakeDriver::setCurrent("other");
  library = openExample();
  EXPECT_EQ(driver.retained, 0);
}

TEST(CudaLoad, NoConstantsNeedNoMemory) {
  FakeDriver driver;
  LibraryContents contents = example();
  CacheMethod method = exampleMethod();
  method.constants.clear();
  contents.formats = {{methodText(method), ""}};
  const kvq_token_args append = appendArgs(7);
  ASSERT_EQ(kvq_append(openExample(contents).get(), &append), KVQ_OK) << kvq_last_error();
  EXPECT_EQ(driver.calls["cuMemAlloc"], 0);
  EXPECT_EQ(driver.launches[0].append.constants, nullptr);
}

struct ChoiceCase {
  int major, minor;
  const char *image;
};

TEST(CudaLoad, ChoosesTheNearestModule) {
  FakeDriver driver;
  LibraryContents contents = emptyLibrary();
  addModule(contents, "sm_80", "ptx");
  addModule(contents, "sm_90a", "ptx");
  addModule(contents, "sm_90", "ptx");
  addModule(contents, "sm_90a", "cubin");
  addModule(contents, "sm_86", "cubin");
  addModule(contents, "gfx942", "hsaco");
  const ChoiceCase cases[] = {
      {8, 0, "sm_80 ptx"}, // the cubin is for a later minor number
      {8, 6, "sm_86 cubin"},  {8, 9, "sm_86 cubin"},
      {9, 0, "sm_90a cubin"}, // not its ptx, nor that of sm_90
      {10, 0, "sm_90 ptx"},   // code for sm_90a runs nowhere else
      {12, 1, "sm_90 ptx"},
  };
  for (const ChoiceCase &c : cases) {
    driver.major = c.major, driver.minor = c.minor;
    const kvq_token_args append = appendArgs(1);
    ASSERT_EQ(kvq_append(openExample(contents).get(), &append), KVQ_OK) << kvq_last_error();
    EXPECT_EQ(driver.images.back(), c.image) << c.major << "." << c.minor;
  }
}

TEST(CudaLoad, DeviceWithoutAModuleForIt) {
  FakeDriver driver;
  driver.major = 8;
  LibraryContents contents = example();
  addModule(contents, "sm_90", "ptx");
  Handle library;
  EXPECT_EQ(open(contents, library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "the library has kernels for sm_90a (cubin), sm_90 (ptx), the "
                                 "device is Example GPU, compute capability 8.0");
}

TEST(CudaLoad, LibraryWithoutGpuKernels) {
  FakeDriver driver;
  LibraryContents contents = emptyLibrary();
  Handle library;
  EXPECT_EQ(open(contents, library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "the library has no kernels for CUDA devices");
  contents.objects = {"no object"};
  for (const char *role : {"append", "prepare", "decode", "merge"}) {
    LibraryKernel kernel;
    kernel.role = KernelRole(contents.kernels.size());
    kernel.symbol = role, kernel.level = "x86-64-v3";
    kernel.rows = kernel.role == KernelRole::decode;
    contents.kernels.push_back(kernel);
  }
  EXPECT_EQ(open(contents, library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(),
               "the library has no kernels for CUDA devices, only for cpu (x86-64-v3)");
  EXPECT_EQ(driver.total(), 0);
}

TEST(CudaLoad, LibraryWithoutCpuKernels) {
  Handle library;
  ASSERT_EQ(open(example(), library, KVQ_TARGET_CPU), KVQ_OK); // can be queried
  EXPECT_EQ(kvq_supports(library.get(), nullptr, nullptr, 0, nullptr), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "the library has no kernels for the CPU, only for sm_90a (cubin)");
  const kvq_token_args args = appendArgs(1);
  EXPECT_EQ(kvq_append(library.get(), &args), KVQ_UNSUPPORTED);
}

TEST(CudaLoad, NoDriver) {
  cuda::setFindDriver([](const cuda::Driver *&) {
    cuda::Driver driver;
    return cuda::openDriver("libkvq-no-driver.so.1", driver);
  });
  Handle library;
  EXPECT_EQ(open(example(), library), KVQ_UNSUPPORTED);
  EXPECT_EQ(std::string(kvq_last_error()).find("no NVIDIA driver: libkvq-no-driver.so.1: "), 0u)
      << kvq_last_error();
  EXPECT_EQ(std::string(kvq_last_error()).find('\n'), std::string::npos);
  cuda::setFindDriver([](const cuda::Driver *&) {
    cuda::Driver driver;
    return cuda::openDriver("libm.so.6", driver);
  });
  EXPECT_EQ(open(example(), library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(
      kvq_last_error(),
      "the NVIDIA driver is too old: libm.so.6 has no cuInit, expected that of CUDA 11.8 or later");
  cuda::setFindDriver(nullptr);
}

TEST(CudaLoad, DriverThatDoesNotStart) {
  FakeDriver driver;
  Handle library;
  driver.failing["cuInit"] = 100;
  EXPECT_EQ(open(example(), library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(),
               "the NVIDIA driver does not start: CUDA_ERROR_EXAMPLE (an example)");
  driver.failing["cuInit"] = 999;
  EXPECT_EQ(open(example(), library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "the NVIDIA driver does not start: CUDA error 999");
  driver.failing = {{"cuDeviceGetAttribute", 3}};
  EXPECT_EQ(open(example(), library), KVQ_DEVICE_ERROR);
  driver.failing = {{"cuDevicePrimaryCtxRetain", 2}};
  FakeDriver::setCurrent(nullptr);
  EXPECT_EQ(open(example(), library), KVQ_OUT_OF_MEMORY);
  EXPECT_STREQ(kvq_last_error(),
               "CUDA device 0 cannot be used: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  EXPECT_EQ(driver.retained, 0);
  driver.failing = {{"cuDeviceGet", 101}};
  EXPECT_EQ(open(example(), library), KVQ_UNSUPPORTED);
  EXPECT_STREQ(kvq_last_error(), "no CUDA device: CUDA_ERROR_EXAMPLE (an example)");
}

/// An append whose load fails leaves nothing behind, and the next one tries again.
template <typename Change>
void expectLoadError(kvq_status status, const char *message, Change change) {
  FakeDriver driver;
  const Handle library = openExample();
  change(driver);
  const kvq_token_args args = appendArgs(1);
  EXPECT_EQ(kvq_append(library.get(), &args), status);
  EXPECT_STREQ(kvq_last_error(), message);
  EXPECT_EQ(driver.modules, 0);
  EXPECT_EQ(driver.allocations, 0);
  EXPECT_TRUE(driver.launches.empty());
  driver.failing.clear(), driver.missingSymbol.clear(), driver.maxThreads = 1024;
  EXPECT_EQ(kvq_append(library.get(), &args), KVQ_OK) << kvq_last_error();
}

TEST(CudaLoad, LoadErrors) {
  using D = FakeDriver;
  expectLoadError(KVQ_UNSUPPORTED,
                  "the library's kernels for sm_90a (cubin) cannot be loaded on Example GPU, "
                  "compute capability 9.0: CUDA_ERROR_EXAMPLE (an example)",
                  [](D &d) { d.failing["cuModuleLoadDataEx"] = cuda::kNoBinaryForGpu; });
  expectLoadError(KVQ_INVALID_FILE,
                  "the library's kernels for sm_90a (cubin) cannot be loaded on Example GPU, "
                  "compute capability 9.0: CUDA_ERROR_EXAMPLE (an example): line 7: wrong",
                  [](D &d) {
                    d.failing["cuModuleLoadDataEx"] = cuda::kInvalidPtx;
                    d.jitLog = "line 7: wrong\nline 8: too";
                  });
  expectLoadError(KVQ_INVALID_FILE,
                  "expected the symbol 'kvq_plan' in the kernels for sm_90a (cubin), got none",
                  [](D &d) { d.missingSymbol = "kvq_plan"; });
  expectLoadError(KVQ_UNSUPPORTED,
                  "the kernel 'kvq_plan' has blocks of 256 threads, Example GPU, compute "
                  "capability 9.0 runs it with at most 192",
                  [](D &d) { d.maxThreads = 192; });
  expectLoadError(KVQ_DEVICE_ERROR,
                  "the kernel 'kvq_plan' cannot be loaded: CUDA_ERROR_EXAMPLE (an example)",
                  [](D &d) { d.failing["cuFuncSetAttribute"] = 1; });
  expectLoadError(KVQ_OUT_OF_MEMORY,
                  "the library's constants, 16 bytes, cannot be put on Example GPU, compute "
                  "capability 9.0: CUDA_ERROR_OUT_OF_MEMORY (out of memory)",
                  [](D &d) { d.failing["cuMemAlloc"] = 2; });
  expectLoadError(KVQ_DEVICE_ERROR,
                  "the library's constants, 16 bytes, cannot be put on Example GPU, compute "
                  "capability 9.0: CUDA_ERROR_EXAMPLE (an example)",
                  [](D &d) { d.failing["cuMemcpyHtoD"] = 1; });
}

TEST(CudaLoad, LaunchErrorsNameTheKernel) {
  FakeDriver driver;
  const Handle library = openExample();
  driver.failing["cuLaunchKernelEx"] = 700;
  const kvq_decode_args args = decodeArgs(1);
  EXPECT_EQ(kvq_decode(library.get(), &args), KVQ_DEVICE_ERROR);
  EXPECT_STREQ(kvq_last_error(),
               "the driver did not launch 'kvq_plan': CUDA_ERROR_EXAMPLE (an example)");
  EXPECT_EQ(driver.calls["cuLaunchKernelEx"], 1);
  driver.failing = {{"cuCtxPushCurrent", 201}};
  FakeDriver::setCurrent("other");
  EXPECT_EQ(kvq_decode(library.get(), &args), KVQ_DEVICE_ERROR);
  EXPECT_STREQ(kvq_last_error(), "the CUDA context in which the library was opened is not usable: "
                                 "CUDA_ERROR_EXAMPLE (an example)");
  driver.failing.clear();
}

template <typename Change>
void expectOpenError(kvq_status status, const char *message, Change change) {
  FakeDriver driver;
  LibraryContents contents = example();
  change(contents);
  Handle library;
  EXPECT_EQ(open(contents, library), status);
  EXPECT_STREQ(kvq_last_error(), message);
}

TEST(CudaLoad, OpenRefusesLibrariesThatCannotWork) {
  using C = LibraryContents;
  expectOpenError(KVQ_INVALID_FILE,
                  "expected kernels of four roles for sm_90a (cubin), got none for plan",
                  [](C &c) { c.kernels.erase(c.kernels.begin() + 1); });
  expectOpenError(KVQ_INVALID_FILE,
                  "expected the warps of a block of 'kvq_decode' to be a power of two, got 6",
                  [](C &c) { c.kernels[3].threads = 192; });
  expectOpenError(KVQ_UNSUPPORTED,
                  "the kernel 'kvq_prepare' needs 233472 bytes of shared memory, the device "
                  "(Example GPU, compute capability 9.0) has 232448 for a block",
                  [](C &c) { c.kernels[2].shared_bytes = 233472; });
}

} // namespace

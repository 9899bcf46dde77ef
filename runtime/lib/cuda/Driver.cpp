// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/cuda/Driver.h"

#include <atomic>
#include <dlfcn.h>

namespace kvq::cuda {
namespace {

constexpr const char *kDriverLibrary = "libcuda.so.1";

/// Sets the members of a Driver and remembers the first symbol that is missing.
struct Symbols {
  void *handle;
  const char *missing = nullptr;

  template <typename Fn> void take(Fn &out, const char *name) {
    void *symbol = ::dlsym(handle, name);
    if (!symbol && !missing)
      missing = name;
    out = reinterpret_cast<Fn>(symbol);
  }
};

struct LoadedDriver {
  Driver driver = {};
  Status status;
  LoadedDriver() : status(openDriver(kDriverLibrary, driver)) {}
};

Status systemDriver(const Driver *&out) {
  // A machine does not get a driver while a process runs: the first answer stands.
  static const LoadedDriver *const loaded = new LoadedDriver; // outlives other static objects
  out = &loaded->driver;
  return loaded->status;
}

std::atomic<FindDriver> find{systemDriver};

} // namespace

Status openDriver(const char *name, Driver &out) {
  void *handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = ::dlerror();
    return {KVQ_UNSUPPORTED, std::string("no NVIDIA driver: ") + (reason ? reason : name)};
  }
  Driver driver = {};
  Symbols symbols{handle};
  symbols.take(driver.init, "cuInit");
  symbols.take(driver.driverGetVersion, "cuDriverGetVersion");
  symbols.take(driver.getErrorName, "cuGetErrorName");
  symbols.take(driver.getErrorString, "cuGetErrorString");
  symbols.take(driver.deviceGet, "cuDeviceGet");
  symbols.take(driver.deviceGetName, "cuDeviceGetName");
  symbols.take(driver.deviceGetAttribute, "cuDeviceGetAttribute");
  symbols.take(driver.primaryCtxRetain, "cuDevicePrimaryCtxRetain");
  symbols.take(driver.primaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
  symbols.take(driver.ctxGetCurrent, "cuCtxGetCurrent");
  symbols.take(driver.ctxGetDevice, "cuCtxGetDevice");
  symbols.take(driver.ctxPushCurrent, "cuCtxPushCurrent_v2");
  symbols.take(driver.ctxPopCurrent, "cuCtxPopCurrent_v2");
  symbols.take(driver.moduleLoadDataEx, "cuModuleLoadDataEx");
  symbols.take(driver.moduleUnload, "cuModuleUnload");
  symbols.take(driver.moduleGetFunction, "cuModuleGetFunction");
  symbols.take(driver.funcGetAttribute, "cuFuncGetAttribute");
  symbols.take(driver.funcSetAttribute, "cuFuncSetAttribute");
  symbols.take(driver.launchKernelEx, "cuLaunchKernelEx");
  symbols.take(driver.memAlloc, "cuMemAlloc_v2");
  symbols.take(driver.memFree, "cuMemFree_v2");
  symbols.take(driver.memcpyHtoD, "cuMemcpyHtoD_v2");
  symbols.take(driver.memcpyAsync, "cuMemcpyAsync");
  symbols.take(driver.memsetD8Async, "cuMemsetD8Async");
  if (symbols.missing) {
    ::dlclose(handle);
    return {KVQ_UNSUPPORTED, std::string("the NVIDIA driver is too old: ") + name + " has no " +
                                 symbols.missing + ", expected that of CUDA 11.8 or later"};
  }
  out = driver;
  return {};
}

Status findDriver(const Driver *&out) {
  const Driver *driver = nullptr;
  if (Status status = find.load()(driver); !status.ok())
    return status;
  if (const Result result = driver->init(0); result != kSuccess)
    return {KVQ_UNSUPPORTED, "the NVIDIA driver does not start: " + errorText(*driver, result)};
  out = driver;
  return {};
}

void setFindDriver(FindDriver with) { find = with ? with : systemDriver; }

std::string errorText(const Driver &driver, Result result) {
  const char *name = nullptr, *text = nullptr;
  if (driver.getErrorName(result, &name) != kSuccess || !name)
    return "CUDA error " + std::to_string(result);
  if (driver.getErrorString(result, &text) != kSuccess || !text)
    return name;
  return std::string(name) + " (" + text + ")";
}

} // namespace kvq::cuda

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/unit/FakeDriver.h"

#include <cstdlib>
#include <cstring>
#include <mutex>

using namespace kvq::cuda;

namespace kvq::test {
namespace {

FakeDriver *fake = nullptr;
std::mutex mutex;
char primary;
thread_local std::vector<const void *> contexts;

const char *const kKernels[] = {"kvq_append",        "kvq_plan",   "kvq_prepare", "kvq_decode",
                                "kvq_append_window", "kvq_demote", "kvq_commit",  "kvq_dequantize"};

/// Counts a call; what it is to return.
Result count(const char *name) {
  const std::lock_guard<std::mutex> lock(mutex);
  ++fake->calls.find(name)->second;
  auto failing = fake->failing.find(name);
  return failing == fake->failing.end() ? kSuccess : failing->second;
}

template <typename Handle> Handle handleOf(const void *pointer) {
  return static_cast<Handle>(const_cast<void *>(pointer));
}

Result init(unsigned) { return count("cuInit"); }

Result driverGetVersion(int *version) {
  *version = 13000;
  return count("cuDriverGetVersion");
}

Result getErrorName(Result error, const char **name) {
  if (error >= 900)
    return kInvalidValue;
  *name = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_EXAMPLE";
  return kSuccess;
}

Result getErrorString(Result error, const char **text) {
  *text = error == kOutOfMemory ? "out of memory" : "an example";
  return kSuccess;
}

Result deviceGet(DeviceOrdinal *device, int index) {
  *device = index;
  return count("cuDeviceGet");
}

Result deviceGetName(char *name, int bytes, DeviceOrdinal) {
  std::strncpy(name, "Example GPU", size_t(bytes));
  return count("cuDeviceGetName");
}

Result deviceGetAttribute(int *value, DeviceAttribute attribute, DeviceOrdinal) {
  *value = attribute == DeviceAttribute::multiprocessors   ? fake->multiprocessors
           : attribute == DeviceAttribute::capabilityMajor ? fake->major
           : attribute == DeviceAttribute::capabilityMinor ? fake->minor
                                                           : fake->maxSharedBytes;
  return count("cuDeviceGetAttribute");
}

Result primaryCtxRetain(Context *context, DeviceOrdinal) {
  const Result result = count("cuDevicePrimaryCtxRetain");
  fake->retained += result == kSuccess;
  *context = handleOf<Context>(&primary);
  return result;
}

Result primaryCtxRelease(DeviceOrdinal) {
  --fake->retained;
  return count("cuDevicePrimaryCtxRelease");
}

Result ctxGetCurrent(Context *context) {
  *context = handleOf<Context>(FakeDriver::current());
  return count("cuCtxGetCurrent");
}

Result ctxGetDevice(DeviceOrdinal *device) {
  *device = 3;
  return count("cuCtxGetDevice");
}

Result ctxPushCurrent(Context context) {
  const Result result = count("cuCtxPushCurrent");
  if (result == kSuccess)
    contexts.push_back(context);
  return result;
}

Result ctxPopCurrent(Context *context) {
  *context = handleOf<Context>(FakeDriver::current());
  contexts.pop_back();
  return count("cuCtxPopCurrent");
}

Result moduleLoadDataEx(Module *module, const void *image, unsigned options, JitOption *keys,
                        void **values) {
  const Result result = count("cuModuleLoadDataEx");
  fake->images.push_back(static_cast<const char *>(image));
  fake->modules += result == kSuccess;
  if (result != kSuccess && options == 2 && keys[0] == JitOption::errorLog)
    std::strncpy(static_cast<char *>(values[0]), fake->jitLog.c_str(),
                 reinterpret_cast<size_t>(values[1]));
  *module = handleOf<Module>(&fake->modules);
  return result;
}

Result moduleUnload(Module) {
  --fake->modules;
  return count("cuModuleUnload");
}

Result moduleGetFunction(Function *function, Module, const char *name) {
  if (const Result result = count("cuModuleGetFunction"); result != kSuccess)
    return result;
  for (const char *kernel : kKernels)
    if (std::strcmp(kernel, name) == 0 && fake->missingSymbol != name) {
      *function = handleOf<Function>(kernel);
      return kSuccess;
    }
  return kNotFound;
}

Result funcGetAttribute(int *value, FunctionAttribute attribute, Function) {
  *value = attribute == FunctionAttribute::maxThreads ? fake->maxThreads : fake->staticSharedBytes;
  return count("cuFuncGetAttribute");
}

Result funcSetAttribute(Function function, FunctionAttribute attribute, int value) {
  if (attribute == FunctionAttribute::maxDynamicSharedBytes)
    fake->sharedLimits[reinterpret_cast<const char *>(function)] = value;
  return count("cuFuncSetAttribute");
}

Result launchKernelEx(const LaunchConfig *config, Function function, void **parameters,
                      void **extra) {
  if (const Result result = count("cuLaunchKernelEx"); result != kSuccess)
    return result;
  if (extra || config->gridY != 1 || config->gridZ != 1 || config->blockY != 1 ||
      config->blockZ != 1)
    return kInvalidValue;
  const std::lock_guard<std::mutex> lock(mutex);
  fake->launches.emplace_back();
  Launch &launch = fake->launches.back();
  launch.kernel = reinterpret_cast<const char *>(function);
  launch.grid = config->gridX, launch.block = config->blockX;
  launch.sharedBytes = config->sharedBytes;
  launch.stream = config->stream, launch.context = FakeDriver::current();
  for (uint32_t i = 0; i < config->attributeCount; ++i)
    launch.early |= config->attributes[i].id == LaunchAttribute::kProgrammaticStreamSerialization &&
                    config->attributes[i].value.allowed == 1;
  if (launch.kernel == "kvq_append")
    std::memcpy(&launch.append, parameters[0], sizeof launch.append);
  else
    std::memcpy(&launch.decode, parameters[0], sizeof launch.decode);
  return kSuccess;
}

Result memAlloc(DevicePointer *pointer, size_t bytes) {
  if (const Result result = count("cuMemAlloc"); result != kSuccess)
    return result;
  ++fake->allocations;
  *pointer = std::malloc(bytes);
  return kSuccess;
}

Result memFree(DevicePointer pointer) {
  --fake->allocations;
  std::free(pointer);
  return count("cuMemFree");
}

Result memcpyHtoD(DevicePointer to, const void *from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return count("cuMemcpyHtoD");
}

Result memcpyAsync(DevicePointer to, DevicePointer from, size_t bytes, Stream) {
  const Result result = count("cuMemcpyAsync");
  if (result == kSuccess)
    std::memcpy(to, from, bytes);
  return result;
}

Result memsetD8Async(DevicePointer at, unsigned char value, size_t bytes, Stream) {
  const Result result = count("cuMemsetD8Async");
  if (result == kSuccess)
    std::memset(at, value, bytes);
  return result;
}

const Driver kDriver = {init,
                        driverGetVersion,
                        getErrorName,
                        getErrorString,
                        deviceGet,
                        deviceGetName,
                        deviceGetAttribute,
                        primaryCtxRetain,
                        primaryCtxRelease,
                        ctxGetCurrent,
                        ctxGetDevice,
                        ctxPushCurrent,
                        ctxPopCurrent,
                        moduleLoadDataEx,
                        moduleUnload,
                        moduleGetFunction,
                        funcGetAttribute,
                        funcSetAttribute,
                        launchKernelEx,
                        memAlloc,
                        memFree,
                        memcpyHtoD,
                        memcpyAsync,
                        memsetD8Async};

} // namespace

FakeDriver::FakeDriver() {
  fake = this;
  launches.reserve(4096); // so that a launch does not allocate here
  for (const char *name : {"cuInit",
                           "cuDriverGetVersion",
                           "cuDeviceGet",
                           "cuDeviceGetName",
                           "cuDeviceGetAttribute",
                           "cuDevicePrimaryCtxRetain",
                           "cuDevicePrimaryCtxRelease",
                           "cuCtxGetCurrent",
                           "cuCtxGetDevice",
                           "cuCtxPushCurrent",
                           "cuCtxPopCurrent",
                           "cuModuleLoadDataEx",
                           "cuModuleUnload",
                           "cuModuleGetFunction",
                           "cuFuncGetAttribute",
                           "cuFuncSetAttribute",
                           "cuLaunchKernelEx",
                           "cuMemAlloc",
                           "cuMemFree",
                           "cuMemcpyHtoD",
                           "cuMemcpyAsync",
                           "cuMemsetD8Async"})
    calls[name] = 0;
  setCurrent("context");
  setFindDriver([](const Driver *&out) {
    out = &kDriver;
    return Status{};
  });
}

FakeDriver::~FakeDriver() {
  setFindDriver(nullptr);
  setCurrent(nullptr);
  fake = nullptr;
}

void FakeDriver::setCurrent(const char *context) {
  contexts.clear();
  if (context)
    contexts.push_back(context);
}

const void *FakeDriver::current() { return contexts.empty() ? nullptr : contexts.back(); }

int FakeDriver::total() const {
  int sum = 0;
  for (const auto &[name, count] : calls)
    sum += count;
  return sum;
}

} // namespace kvq::test

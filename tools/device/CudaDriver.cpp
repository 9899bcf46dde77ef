// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/device/CudaDriver.h"

#include <dlfcn.h>
#include <stdexcept>

namespace kvq::cuda {
namespace {

template <typename Fn> void take(void *handle, Fn &out, const char *name) {
  void *symbol = dlsym(handle, name);
  if (!symbol)
    throw std::runtime_error(std::string("the NVIDIA driver has no ") + name);
  out = reinterpret_cast<Fn>(symbol);
}

ToolDriver load() {
  ToolDriver driver = {};
  if (Status status = findDriver(driver.base); !status.ok())
    throw std::runtime_error(status.message);
  void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw std::runtime_error(dlerror());
  take(handle, driver.ctxSetCurrent, "cuCtxSetCurrent");
  take(handle, driver.ctxSynchronize, "cuCtxSynchronize");
  take(handle, driver.memcpyDtoH, "cuMemcpyDtoH_v2");
  take(handle, driver.memcpyDtoD, "cuMemcpyDtoD_v2");
  take(handle, driver.memGetInfo, "cuMemGetInfo_v2");
  take(handle, driver.memsetD8, "cuMemsetD8_v2");
  take(handle, driver.streamCreate, "cuStreamCreate");
  take(handle, driver.streamSynchronize, "cuStreamSynchronize");
  take(handle, driver.streamBeginCapture, "cuStreamBeginCapture_v2");
  take(handle, driver.streamEndCapture, "cuStreamEndCapture");
  take(handle, driver.graphInstantiate, "cuGraphInstantiateWithFlags");
  take(handle, driver.graphLaunch, "cuGraphLaunch");
  take(handle, driver.graphExecDestroy, "cuGraphExecDestroy");
  take(handle, driver.graphDestroy, "cuGraphDestroy");
  take(handle, driver.eventCreate, "cuEventCreate");
  take(handle, driver.eventDestroy, "cuEventDestroy_v2");
  take(handle, driver.eventRecord, "cuEventRecord");
  take(handle, driver.eventSynchronize, "cuEventSynchronize");
  take(handle, driver.eventElapsedTime, "cuEventElapsedTime");
  return driver;
}

} // namespace

const ToolDriver &toolDriver() {
  static const ToolDriver driver = load();
  return driver;
}

void requireCuda(const char *call, Result result) {
  if (result != kSuccess)
    throw std::runtime_error(std::string(call) + ": " + errorText(*toolDriver().base, result));
}

} // namespace kvq::cuda

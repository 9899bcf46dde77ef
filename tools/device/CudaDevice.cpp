// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/device/CudaDriver.h"
#include "tools/device/Device.h"

namespace kvq {
namespace {

using namespace cuda;

DevicePointer address(const void *memory) { return const_cast<void *>(memory); }

/// All work goes to one stream that does not wait for the default one; copies wait for it.
class CudaDevice final : public Device {
public:
  CudaDevice() : driver(toolDriver()) {
    DeviceOrdinal ordinal;
    requireCuda("cuDeviceGet", driver.base->deviceGet(&ordinal, 0));
    Context context;
    requireCuda("cuDevicePrimaryCtxRetain", driver.base->primaryCtxRetain(&context, ordinal));
    requireCuda("cuCtxSetCurrent", driver.ctxSetCurrent(context));
    char text[256] = "";
    requireCuda("cuDeviceGetName", driver.base->deviceGetName(text, sizeof text, ordinal));
    label = text;
    constexpr unsigned kNonBlocking = 1;
    requireCuda("cuStreamCreate", driver.streamCreate(&queue, kNonBlocking));
  }

  kvq_target target() const override { return KVQ_TARGET_CUDA; }
  std::string name() const override { return label; }
  void *stream() const override { return queue; }

  void *allocate(size_t bytes) override {
    DevicePointer memory = nullptr;
    requireCuda("cuMemAlloc", driver.base->memAlloc(&memory, bytes));
    return memory;
  }
  void release(void *memory) override { driver.base->memFree(address(memory)); }
  void write(void *to, const void *from, size_t bytes) override {
    synchronize();
    if (bytes)
      requireCuda("cuMemcpyHtoD", driver.base->memcpyHtoD(address(to), from, bytes));
    finish();
  }
  void read(void *to, const void *from, size_t bytes) override {
    synchronize();
    if (bytes)
      requireCuda("cuMemcpyDtoH", driver.memcpyDtoH(to, address(from), bytes));
  }
  void fill(void *to, uint8_t byte, size_t bytes) override {
    synchronize();
    if (bytes)
      requireCuda("cuMemsetD8", driver.memsetD8(address(to), byte, bytes));
    finish();
  }
  void synchronize() override {
    requireCuda("cuStreamSynchronize", driver.streamSynchronize(queue));
  }

private:
  /// Copies and fills from the host return before they are done on the device.
  void finish() { requireCuda("cuCtxSynchronize", driver.ctxSynchronize()); }

  const ToolDriver &driver;
  std::string label;
  Stream queue = nullptr;
};

} // namespace

std::unique_ptr<Device> openCudaDevice() { return std::make_unique<CudaDevice>(); }

} // namespace kvq

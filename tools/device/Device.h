// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory and the queue of the machine that runs a library's kernels: this process, or a CUDA
// device. Failures are std::runtime_error with one sentence.
#pragma once

#include "kvq/runtime.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvq {

class Device {
public:
  virtual ~Device() = default;

  virtual kvq_target target() const = 0;
  virtual std::string name() const = 0;
  /// Stream for the runtime's calls; copies and fills below are ordered with it.
  virtual void *stream() const = 0;

  /// At an address that is a multiple of 256.
  virtual void *allocate(size_t bytes) = 0;
  virtual void release(void *memory) = 0;
  virtual void write(void *to, const void *from, size_t bytes) = 0;
  virtual void read(void *to, const void *from, size_t bytes) = 0;
  virtual void fill(void *to, uint8_t byte, size_t bytes) = 0;
  /// Waits for everything that was launched; a fault of a kernel shows here.
  virtual void synchronize() = 0;
};

std::unique_ptr<Device> openHostDevice();
/// The first CUDA device; its primary context becomes current in this thread.
std::unique_ptr<Device> openCudaDevice();

/// Memory of a device.
class Buffer {
public:
  Buffer(Device &device, size_t bytes)
      : device(&device), memory(device.allocate(bytes ? bytes : 1)), size(bytes) {}
  Buffer(Buffer &&other) noexcept
      : device(other.device), memory(std::exchange(other.memory, nullptr)), size(other.size) {}
  Buffer &operator=(Buffer &&) = delete;
  ~Buffer() {
    if (memory)
      device->release(memory);
  }

  uint8_t *data() const { return static_cast<uint8_t *>(memory); }
  size_t bytes() const { return size; }
  void fill(uint8_t byte) const { device->fill(memory, byte, size); }
  void write(const void *from) const { device->write(memory, from, size); }
  void read(void *to) const { device->read(to, memory, size); }

private:
  Device *device;
  void *memory;
  size_t size;
};

/// Memory of a device that holds `values`.
template <typename T> Buffer upload(Device &device, const std::vector<T> &values) {
  Buffer buffer(device, sizeof(T) * values.size());
  buffer.write(values.data());
  return buffer;
}

/// The address of a buffer for arguments.
template <typename T> T *at(const Buffer &buffer) { return reinterpret_cast<T *>(buffer.data()); }

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/device/Device.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace kvq {
namespace {

class HostDevice final : public Device {
public:
  kvq_target target() const override { return KVQ_TARGET_CPU; }
  std::string name() const override { return "this machine's processor"; }
  void *stream() const override { return nullptr; }

  void *allocate(size_t bytes) override {
    void *memory = std::aligned_alloc(256, (bytes / 256 + 1) * 256);
    if (!memory)
      throw std::bad_alloc();
    return memory;
  }
  void release(void *memory) override { std::free(memory); }
  void write(void *to, const void *from, size_t bytes) override { copy(to, from, bytes); }
  void read(void *to, const void *from, size_t bytes) override { copy(to, from, bytes); }
  void fill(void *to, uint8_t byte, size_t bytes) override { std::memset(to, byte, bytes); }
  void synchronize() override {}

private:
  static void copy(void *to, const void *from, size_t bytes) {
    if (bytes)
      std::memcpy(to, from, bytes);
  }
};

} // namespace

std::unique_ptr<Device> openHostDevice() { return std::make_unique<HostDevice>(); }

} // namespace kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace kvq {

/// Bytes at an address that suits every argument of the runtime, filled with 0xff: a number that is
/// read before it was written is NaN.
class Memory {
public:
  explicit Memory(size_t size)
      : bytes(static_cast<char *>(std::aligned_alloc(128, (size / 128 + 1) * 128))) {
    if (!bytes)
      throw std::bad_alloc();
    std::memset(bytes.get(), 0xff, size);
  }
  char *data() { return bytes.get(); }
  const char *data() const { return bytes.get(); }

private:
  struct Free {
    void operator()(char *pointer) const { std::free(pointer); }
  };
  std::unique_ptr<char, Free> bytes;
};

} // namespace kvq

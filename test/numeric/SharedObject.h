// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A shared object that was compiled in this process.
#pragma once

#include <dlfcn.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace kvq::test {

class SharedObject {
public:
  /// Null after printing why `bytes` cannot be loaded.
  static std::unique_ptr<SharedObject> load(const std::string &bytes) {
    const int file = memfd_create("kernels", 0);
    const bool whole =
        file >= 0 && write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    void *handle = nullptr;
    if (whole)
      handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      std::fprintf(stderr, "%s\n", whole ? dlerror() : "expected a file in memory, got none");
    if (file >= 0)
      close(file);
    return std::unique_ptr<SharedObject>(handle ? new SharedObject(handle) : nullptr);
  }
  ~SharedObject() { dlclose(handle); }
  SharedObject(const SharedObject &) = delete;
  SharedObject &operator=(const SharedObject &) = delete;

  template <typename Function> Function *find(const char *name) const {
    return reinterpret_cast<Function *>(dlsym(handle, name));
  }

private:
  explicit SharedObject(void *handle) : handle(handle) {}
  void *handle;
};

} // namespace kvq::test

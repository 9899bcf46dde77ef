// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/HostCode.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <iterator>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace kvq {
namespace {

// Linux 6.3; older kernels refuse it, newer ones may ask for it.
constexpr unsigned kExecutable = 0x0010U;

Status ioError(const char *what) {
  return {KVQ_IO_ERROR, std::string("cannot ") + what + ": " + std::strerror(errno)};
}

struct MemoryFile {
  int fd = -1;
  MemoryFile() = default;
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  ~MemoryFile() {
    if (fd >= 0)
      ::close(fd);
  }
};

/// A path of the descriptor that no earlier object was loaded by. The dynamic linker takes equal
/// names for the same object, numbers of descriptors repeat, and an object may stay loaded when it
/// is closed (-z nodelete): "/proc/self/fd/7" could give kernels of another library. So a counter
/// goes into the spelling, a bit as "./" or ".//". It starts at its own address, which tells copies
/// of this code in one process apart.
std::string freshName(int fd) {
  static std::atomic<uint64_t> counter{reinterpret_cast<uintptr_t>(&counter)};
  std::string name = "/proc/self/fd/";
  for (uint64_t bits = counter++, i = 0; i < 64; ++i, bits >>= 1)
    name += bits & 1 ? ".//" : "./";
  return name + std::to_string(fd);
}

struct Feature {
  const char *name;
  bool here;
};

/// What a level needs beyond the base; empty for a level that is not known here.
std::vector<Feature> featuresOf(const std::string &level) {
  std::vector<Feature> features;
#if defined(__x86_64__)
  const bool v4 = level == "x86-64-v4";
  if (v4 || level == "x86-64-v3")
    features = {{"avx2", bool(__builtin_cpu_supports("avx2"))},
                {"bmi", bool(__builtin_cpu_supports("bmi"))},
                {"bmi2", bool(__builtin_cpu_supports("bmi2"))},
                {"f16c", bool(__builtin_cpu_supports("f16c"))},
                {"fma", bool(__builtin_cpu_supports("fma"))},
                {"lzcnt", bool(__builtin_cpu_supports("lzcnt"))},
                {"movbe", bool(__builtin_cpu_supports("movbe"))}};
  if (v4) {
    features.push_back({"avx512f", bool(__builtin_cpu_supports("avx512f"))});
    features.push_back({"avx512bw", bool(__builtin_cpu_supports("avx512bw"))});
    features.push_back({"avx512cd", bool(__builtin_cpu_supports("avx512cd"))});
    features.push_back({"avx512dq", bool(__builtin_cpu_supports("avx512dq"))});
    features.push_back({"avx512vl", bool(__builtin_cpu_supports("avx512vl"))});
  }
#else
  (void)level;
#endif
  return features;
}

/// 0 is any CPU. Negative: not known on this machine.
int levelRank(const std::string &level) {
  if (level.empty())
    return 0;
#if defined(__x86_64__)
  const char *const names[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
  for (int i = 0; i < 3; ++i)
    if (level == names[i])
      return 1 + i;
#endif
  return -1;
}

/// Empty, or why this CPU cannot run code of the level.
std::string refuseLevel(const std::string &level) {
  if (levelRank(level) < 0)
    return "the kernels need the instruction set '" + level + "', which is not one of this machine";
  std::string missing;
  for (const Feature &feature : featuresOf(level))
    if (!feature.here)
      missing += (missing.empty() ? "" : ", ") + std::string(feature.name);
  return missing.empty() ? "" : "the kernels need " + level + ", this CPU lacks " + missing;
}

} // namespace

SharedObject::SharedObject(SharedObject &&other) noexcept { *this = std::move(other); }

SharedObject &SharedObject::operator=(SharedObject &&other) noexcept {
  std::swap(handle, other.handle);
  return *this;
}

SharedObject::~SharedObject() {
  if (handle)
    ::dlclose(handle);
}

Status SharedObject::load(ByteSpan bytes, SharedObject &out) {
  SharedObject object;
  MemoryFile file; // closed on return: the mapping is enough
  file.fd = ::memfd_create("kvq-library", MFD_CLOEXEC | kExecutable);
  if (file.fd < 0 && errno == EINVAL)
    file.fd = ::memfd_create("kvq-library", MFD_CLOEXEC);
  if (file.fd < 0)
    return ioError("create a file in memory for the kernels");
  const uint8_t *at = bytes.bytes();
  for (size_t left = bytes.size; left;) {
    const ssize_t n = ::write(file.fd, at, left);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return ioError("write the kernels to memory");
    at += n, left -= size_t(n);
  }
  object.handle = ::dlopen(freshName(file.fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object.handle) {
    const char *reason = ::dlerror();
    return {KVQ_INVALID_FILE,
            std::string("the kernels cannot be loaded: ") + (reason ? reason : "no reason given")};
  }
  out = std::move(object);
  return {};
}

void *SharedObject::symbol(const std::string &name) const { return ::dlsym(handle, name.c_str()); }

bool HostCode::has(KernelRole role) const {
  switch (role) {
  case KernelRole::append_window:
    return appendWindow != nullptr;
  case KernelRole::dequantize:
    return dequantize != nullptr;
  case KernelRole::demote:
    return demote != nullptr;
  case KernelRole::plan:
    return false;
  default:
    return loaded();
  }
}

Status chooseKernels(const std::vector<KernelSet> &sets, KernelSet &out) {
  std::vector<KernelSet> ours;
  std::copy_if(sets.begin(), sets.end(), std::back_inserter(ours),
               [](const KernelSet &set) { return set.target == "cpu"; });
  std::stable_sort(ours.begin(), ours.end(), [](const KernelSet &a, const KernelSet &b) {
    return levelRank(a.level) > levelRank(b.level);
  });
  std::string reasons;
  for (const KernelSet &set : ours) {
    const std::string reason = refuseLevel(set.level);
    if (reason.empty()) {
      out = set;
      return {};
    }
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  if (!ours.empty())
    return {KVQ_UNSUPPORTED, reasons};
  const std::string others = listSets(sets, [](const KernelSet &) { return true; });
  return {KVQ_UNSUPPORTED, "the library has no kernels for the CPU" +
                               (others.empty() ? others : ", only for " + others)};
}

Status loadHostCode(const LibraryView &library, const KernelSet &kernels, HostCode &out) {
  HostCode code;
  if (Status status = SharedObject::load(library.objects[kernels.object()], code.object);
      !status.ok())
    return status;
  for (const LibraryKernel *kernel : kernels.kernels)
    if (!code.object.symbol(kernel->symbol))
      return {KVQ_INVALID_FILE,
              "expected the symbol '" + kernel->symbol + "' in the kernels, got none"};
  auto symbol = [&](KernelRole role) {
    const LibraryKernel *kernel = kernels.find(role);
    return kernel ? code.object.symbol(kernel->symbol) : nullptr;
  };
  code.append = reinterpret_cast<kvq_cpu_token_fn>(symbol(KernelRole::append));
  code.appendWindow = reinterpret_cast<kvq_cpu_token_fn>(symbol(KernelRole::append_window));
  code.dequantize = reinterpret_cast<kvq_cpu_token_fn>(symbol(KernelRole::dequantize));
  code.demote = reinterpret_cast<kvq_cpu_demote_fn>(symbol(KernelRole::demote));
  code.prepare = reinterpret_cast<kvq_cpu_decode_fn>(symbol(KernelRole::prepare));
  code.decode = reinterpret_cast<kvq_cpu_decode_fn>(symbol(KernelRole::decode));
  code.merge = reinterpret_cast<kvq_cpu_decode_fn>(symbol(KernelRole::merge));
  code.info = kernels.role(KernelRole::decode).info;
  code.rows = std::max(kernels.role(KernelRole::decode).rows, 1);
  out = std::move(code);
  return {};
}

} // namespace kvq

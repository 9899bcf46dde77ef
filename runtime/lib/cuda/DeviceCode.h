// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GPU kernels of a library on one device.
#pragma once

#include "runtime/lib/KernelSets.h"
#include "runtime/lib/cuda/Driver.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

namespace kvq::cuda {

/// A device and the context in which a library lives.
class Device {
public:
  Device() = default;
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;
  ~Device();

  /// The device that is current in this thread, else device 0 with its primary context, which is
  /// then held until this object ends. UNSUPPORTED if there is none.
  Status open();

  /// "NVIDIA H200, compute capability 9.0".
  std::string text() const;
  int capability() const { return 10 * major + minor; }

  const Driver *driver = nullptr;
  Context context = nullptr;
  std::string name;
  int major = 0, minor = 0, multiprocessors = 0;
  int maxSharedBytes = 0; ///< of a block

private:
  Status openContext();

  DeviceOrdinal ordinal = 0;
  bool retained = false;
};

/// Makes the context of a device current in this thread for the life of this object.
class CurrentContext {
public:
  explicit CurrentContext(const Device &device);
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;
  ~CurrentContext();

  Result result = kSuccess; ///< of making it current

private:
  const Driver &driver;
  bool pushed = false;
};

/// The set whose code runs on a device of that capability (10 * major + minor) and was made for the
/// nearest one: cubins for the capability's major and at most its minor number, ptx for at most the
/// capability, and names that end in `a` for exactly it. UNSUPPORTED, with the reason, if there is
/// none.
Status chooseModule(const std::vector<KernelSet> &sets, const Device &device, KernelSet &out);

struct DeviceKernel {
  Function function = nullptr;
  uint32_t threads = 0, sharedBytes = 0; ///< of a block
};

/// The code of one format.
class DeviceCode {
public:
  /// The code of a format of `library` for `device`; UNSUPPORTED, with the reason, if it is not in
  /// `sets`, those of the format. `device` and `library` must outlive it. Loads nothing.
  static Status open(const Device &device, const LibraryView &library, uint32_t format,
                     const std::vector<KernelSet> &sets, std::unique_ptr<DeviceCode> &out);
  DeviceCode(const Device &device, const LibraryView &library, uint32_t format)
      : device(device), library(library), format(format) {}
  DeviceCode(const DeviceCode &) = delete;
  DeviceCode &operator=(const DeviceCode &) = delete;
  ~DeviceCode();

  /// Loads module and constants, once; a call after one that failed tries again.
  Status load();

  bool has(KernelRole role) const { return kernels.find(role) != nullptr; }
  /// Row class of decode.
  int32_t rows() const { return std::max(kernels.role(KernelRole::decode).rows, 1); }
  /// Warps of a block of a kernel. May be asked before load.
  int64_t warps(KernelRole role) const { return kernels.role(role).threads / 32; }
  const WorkspaceFloats &info() const { return kernels.role(KernelRole::decode).info; }
  /// Blocks of the decode kernel: one for each multiprocessor, down to a power of two.
  int64_t decodeBlocks() const;

  /// Whether prepare and decode order themselves behind the kernel in front (griddepcontrol), so
  /// that they may be launched before it has ended: code for capability 9.0 and up does.
  bool startsEarly() const;

  /// After load.
  const DeviceKernel &kernel(KernelRole role) const { return functions[uint32_t(role)]; }
  const void *constants() const { return constantsAt; }
  const std::string &symbol(KernelRole role) const { return kernels.role(role).symbol; }

  const Device &device;

private:
  Status check() const;
  Status loadLocked();
  Status loadModule();
  Status loadKernel(KernelRole role);
  Status loadConstants();
  void unload();

  const LibraryView &library;
  const uint32_t format;
  KernelSet kernels;
  std::mutex mutex;
  std::atomic<bool> loaded{false};
  Module module = nullptr;
  DeviceKernel functions[kKernelRoles];
  DevicePointer constantsAt = nullptr;
};

} // namespace kvq::cuda

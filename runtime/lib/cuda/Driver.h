// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CUDA driver interface, as far as the runtime calls it. libcuda.so.1 is opened when a library
// is opened for a CUDA device; nothing of it is needed to build or to run on a CPU. Names and
// numbers are those of the driver's documented binary interface.
#pragma once

#include "runtime/lib/Status.h"

namespace kvq::cuda {

using Result = int; ///< CUresult
inline constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kInvalidImage = 200,
                        kInvalidContext = 201, kNoBinaryForGpu = 209, kInvalidPtx = 218,
                        kUnsupportedPtxVersion = 222, kNotFound = 500;

using DeviceOrdinal = int;         ///< CUdevice
using DevicePointer = void *;      ///< CUdeviceptr, an integer that is as wide
using Context = struct ContextT *; ///< CUcontext, and so on
using Module = struct ModuleT *;
using Function = struct FunctionT *;
using Stream = struct StreamT *;

enum class DeviceAttribute : int {
  multiprocessors = 16,
  capabilityMajor = 75,
  capabilityMinor = 76,
  maxSharedBytes = 97, ///< of a block that asked for it
};

enum class FunctionAttribute : int {
  maxThreads = 0,
  staticSharedBytes = 1,
  maxDynamicSharedBytes = 8,
};

enum class JitOption : int { errorLog = 5, errorLogBytes = 6 };

/// CUlaunchAttribute.
struct LaunchAttribute {
  static constexpr int kProgrammaticStreamSerialization = 6;

  int id, pad;
  union {
    int allowed; ///< of kProgrammaticStreamSerialization
    char bytes[64];
  } value;
};

/// CUlaunchConfig.
struct LaunchConfig {
  uint32_t gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  uint32_t attributeCount;
};

struct Driver {
  Result (*init)(unsigned flags);
  Result (*driverGetVersion)(int *version);
  Result (*getErrorName)(Result error, const char **name);
  Result (*getErrorString)(Result error, const char **text);
  Result (*deviceGet)(DeviceOrdinal *device, int index);
  Result (*deviceGetName)(char *name, int bytes, DeviceOrdinal device);
  Result (*deviceGetAttribute)(int *value, DeviceAttribute attribute, DeviceOrdinal device);
  Result (*primaryCtxRetain)(Context *context, DeviceOrdinal device);
  Result (*primaryCtxRelease)(DeviceOrdinal device);
  Result (*ctxGetCurrent)(Context *context);
  Result (*ctxGetDevice)(DeviceOrdinal *device);
  Result (*ctxPushCurrent)(Context context);
  Result (*ctxPopCurrent)(Context *context);
  Result (*moduleLoadDataEx)(Module *module, const void *image, unsigned options, JitOption *keys,
                             void **values);
  Result (*moduleUnload)(Module module);
  Result (*moduleGetFunction)(Function *function, Module module, const char *name);
  Result (*funcGetAttribute)(int *value, FunctionAttribute attribute, Function function);
  Result (*funcSetAttribute)(Function function, FunctionAttribute attribute, int value);
  Result (*launchKernelEx)(const LaunchConfig *config, Function function, void **parameters,
                           void **extra);
  Result (*memAlloc)(DevicePointer *pointer, size_t bytes);
  Result (*memFree)(DevicePointer pointer);
  Result (*memcpyHtoD)(DevicePointer to, const void *from, size_t bytes);
  /// Host or device memory, whichever the addresses are.
  Result (*memcpyAsync)(DevicePointer to, DevicePointer from, size_t bytes, Stream stream);
  Result (*memsetD8Async)(DevicePointer at, unsigned char value, size_t bytes, Stream stream);
};

/// Fills `out` from the shared library `name`, which then stays loaded. UNSUPPORTED, with the
/// reason, if there is none or if it lacks a function.
Status openDriver(const char *name, Driver &out);

/// The driver of this process, started: libcuda.so.1, or what the last setFindDriver gives.
/// UNSUPPORTED, with the reason, if there is none or it does not start.
Status findDriver(const Driver *&out);

/// Puts another driver in the place of libcuda.so.1, for tests; null puts it back. Libraries that
/// are open keep theirs.
using FindDriver = Status (*)(const Driver *&out);
void setFindDriver(FindDriver find);

/// "CUDA_ERROR_NAME (text)", or the number if the driver does not know it.
std::string errorText(const Driver &driver, Result result);

} // namespace kvq::cuda

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/cuda/DeviceCode.h"

#include <algorithm>
#include <cstring>

namespace kvq::cuda {
namespace {

/// More than half of what a multiprocessor has, on every device with that much: so no two blocks of
/// the decode kernel share a multiprocessor, which would leave another one idle.
constexpr int kDecodeSharedBytes = 118 * 1024;

/// The last four need not be there.
constexpr KernelRole kRoles[] = {KernelRole::append, KernelRole::plan,          KernelRole::prepare,
                                 KernelRole::decode, KernelRole::append_window, KernelRole::demote,
                                 KernelRole::commit, KernelRole::dequantize};

/// A target name taken apart.
struct Target {
  int capability = 0;
  bool exact = false; ///< ends in `a`: code for this capability and no other
  bool ptx = false;
  bool known = false;
};

Target targetOf(const KernelSet &set) {
  Target target;
  const std::string prefix = "sm_";
  if (set.target.compare(0, prefix.size(), prefix) != 0)
    return target;
  std::string number = set.target.substr(prefix.size());
  if (!number.empty() && number.back() == 'a')
    target.exact = true, number.pop_back();
  target.ptx = set.level == "ptx";
  target.known = (target.ptx || set.level == "cubin") && number.size() >= 2 && number.size() <= 3 &&
                 number.find_first_not_of("0123456789") == std::string::npos;
  target.capability = target.known ? std::stoi(number) : 0;
  return target;
}

bool runsOn(const Target &target, int capability) {
  if (!target.known)
    return false;
  if (target.exact)
    return target.capability == capability;
  return target.capability <= capability &&
         (target.ptx || target.capability / 10 == capability / 10);
}

/// Greater is better among those that run.
int rank(const Target &target) { return 4 * target.capability + 2 * target.exact + !target.ptx; }

Status deviceError(const Driver &driver, const std::string &what, Result result) {
  return {result == kOutOfMemory ? KVQ_OUT_OF_MEMORY : KVQ_DEVICE_ERROR,
          what + ": " + errorText(driver, result)};
}

} // namespace

Device::~Device() {
  if (retained)
    driver->primaryCtxRelease(ordinal);
}

Status Device::openContext() {
  Context current = nullptr;
  if (Result result = driver->ctxGetCurrent(&current); result != kSuccess)
    return deviceError(*driver, "the current CUDA context cannot be asked for", result);
  if (current) {
    if (Result result = driver->ctxGetDevice(&ordinal); result != kSuccess)
      return deviceError(*driver, "the current CUDA device cannot be asked for", result);
    context = current;
    return {};
  }
  if (Result result = driver->deviceGet(&ordinal, 0); result != kSuccess)
    return {KVQ_UNSUPPORTED, "no CUDA device: " + errorText(*driver, result)};
  if (Result result = driver->primaryCtxRetain(&context, ordinal); result != kSuccess)
    return deviceError(*driver, "CUDA device 0 cannot be used", result);
  retained = true;
  return {};
}

Status Device::open() {
  if (Status status = findDriver(driver); !status.ok())
    return status;
  if (Status status = openContext(); !status.ok())
    return status;
  char text[256] = "";
  Result result = driver->deviceGetName(text, sizeof text - 1, ordinal);
  name = text;
  auto ask = [&](int &value, DeviceAttribute attribute) {
    if (result == kSuccess)
      result = driver->deviceGetAttribute(&value, attribute, ordinal);
  };
  ask(major, DeviceAttribute::capabilityMajor);
  ask(minor, DeviceAttribute::capabilityMinor);
  ask(multiprocessors, DeviceAttribute::multiprocessors);
  ask(maxSharedBytes, DeviceAttribute::maxSharedBytes);
  if (result != kSuccess)
    return deviceError(*driver, "the properties of the CUDA device cannot be asked for", result);
  return {};
}

std::string Device::text() const {
  return name + ", compute capability " + std::to_string(major) + "." + std::to_string(minor);
}

CurrentContext::CurrentContext(const Device &device) : driver(*device.driver) {
  Context current = nullptr;
  result = driver.ctxGetCurrent(&current);
  if (result != kSuccess || current == device.context)
    return;
  result = driver.ctxPushCurrent(device.context);
  pushed = result == kSuccess;
}

CurrentContext::~CurrentContext() {
  Context popped = nullptr;
  if (pushed)
    driver.ctxPopCurrent(&popped);
}

Status chooseModule(const std::vector<KernelSet> &sets, const Device &device, KernelSet &out) {
  const KernelSet *best = nullptr;
  for (const KernelSet &set : sets)
    if (runsOn(targetOf(set), device.capability()) &&
        (!best || rank(targetOf(set)) > rank(targetOf(*best))))
      best = &set;
  if (!best)
    return {KVQ_UNSUPPORTED,
            "the library has kernels for " +
                listSets(sets, [](const KernelSet &set) { return set.target != "cpu"; }) +
                ", the device is " + device.text()};
  out = *best;
  return {};
}

Status DeviceCode::open(const Device &device, const LibraryView &library, uint32_t format,
                        const std::vector<KernelSet> &sets, std::unique_ptr<DeviceCode> &out) {
  auto code = std::make_unique<DeviceCode>(device, library, format);
  if (Status status = chooseModule(sets, device, code->kernels); !status.ok())
    return status;
  if (Status status = code->check(); !status.ok())
    return status;
  out = std::move(code);
  return {};
}

DeviceCode::~DeviceCode() {
  if (!module && !constantsAt)
    return;
  const CurrentContext current(device);
  if (current.result == kSuccess)
    unload();
}

/// What the launches count on.
Status DeviceCode::check() const {
  if (const int64_t count = warps(KernelRole::decode); count & (count - 1))
    return {KVQ_INVALID_FILE, "expected the warps of a block of '" + symbol(KernelRole::decode) +
                                  "' to be a power of two, got " + std::to_string(count)};
  for (const LibraryKernel *kernel : kernels.kernels)
    if (const int bytes = kernel->shared_bytes; bytes > device.maxSharedBytes)
      return {KVQ_UNSUPPORTED, "the kernel '" + kernel->symbol + "' needs " +
                                   std::to_string(bytes) + " bytes of shared memory, the device (" +
                                   device.text() + ") has " +
                                   std::to_string(device.maxSharedBytes) + " for a block"};
  return {};
}

bool DeviceCode::startsEarly() const { return targetOf(kernels).capability >= 90; }

int64_t DeviceCode::decodeBlocks() const {
  int64_t blocks = 1;
  while (2 * blocks <= device.multiprocessors)
    blocks *= 2;
  return blocks;
}

Status DeviceCode::load() {
  if (loaded.load(std::memory_order_acquire))
    return {};
  const std::lock_guard<std::mutex> lock(mutex);
  if (loaded.load(std::memory_order_relaxed))
    return {};
  const CurrentContext current(device);
  if (current.result != kSuccess)
    return deviceError(*device.driver, "the CUDA context of the library is not usable",
                       current.result);
  Status status = loadLocked();
  if (status.ok())
    loaded.store(true, std::memory_order_release);
  else
    unload();
  return status;
}

Status DeviceCode::loadLocked() {
  if (Status status = loadModule(); !status.ok())
    return status;
  for (KernelRole role : kRoles)
    if (has(role))
      if (Status status = loadKernel(role); !status.ok())
        return status;
  return loadConstants();
}

Status DeviceCode::loadModule() {
  const ByteSpan bytes = library.objects[kernels.object()];
  // A copy, because the driver wants ptx to end in a zero byte.
  const std::string image(static_cast<const char *>(bytes.data), bytes.size);
  char log[1024] = "";
  JitOption keys[] = {JitOption::errorLog, JitOption::errorLogBytes};
  void *values[] = {log, nullptr};
  const uintptr_t logBytes = sizeof log - 1; // goes where a pointer would
  std::memcpy(static_cast<void *>(&values[1]), &logBytes, sizeof logBytes);
  const Result result = device.driver->moduleLoadDataEx(&module, image.c_str(), 2, keys, values);
  if (result == kSuccess)
    return {};
  module = nullptr;
  Status status = deviceError(*device.driver,
                              "the library's kernels for " + kernels.text() +
                                  " cannot be loaded on " + device.text(),
                              result);
  if (result == kNoBinaryForGpu || result == kUnsupportedPtxVersion)
    status.code = KVQ_UNSUPPORTED;
  if (result == kInvalidImage || result == kInvalidPtx)
    status.code = KVQ_INVALID_FILE;
  const std::string text = log;
  if (!text.empty())
    status.message += ": " + text.substr(0, text.find('\n'));
  return status;
}

Status DeviceCode::loadKernel(KernelRole role) {
  const Driver &driver = *device.driver;
  const LibraryKernel &entry = kernels.role(role);
  DeviceKernel kernel;
  Result result = driver.moduleGetFunction(&kernel.function, module, entry.symbol.c_str());
  if (result == kNotFound)
    return {KVQ_INVALID_FILE, "expected the symbol '" + entry.symbol + "' in the kernels for " +
                                  kernels.text() + ", got none"};
  int threads = 0, fixed = 0;
  if (result == kSuccess)
    result = driver.funcGetAttribute(&threads, FunctionAttribute::maxThreads, kernel.function);
  if (result == kSuccess)
    result = driver.funcGetAttribute(&fixed, FunctionAttribute::staticSharedBytes, kernel.function);
  int shared = entry.shared_bytes;
  if (role == KernelRole::decode)
    shared = std::max(shared, std::min(kDecodeSharedBytes, device.maxSharedBytes - fixed));
  if (result == kSuccess && shared)
    result =
        driver.funcSetAttribute(kernel.function, FunctionAttribute::maxDynamicSharedBytes, shared);
  if (result != kSuccess)
    return deviceError(driver, "the kernel '" + entry.symbol + "' cannot be loaded", result);
  if (threads < entry.threads)
    return {KVQ_UNSUPPORTED, "the kernel '" + entry.symbol + "' has blocks of " +
                                 std::to_string(entry.threads) + " threads, " + device.text() +
                                 " runs it with at most " + std::to_string(threads)};
  kernel.threads = uint32_t(entry.threads), kernel.sharedBytes = uint32_t(shared);
  functions[uint32_t(role)] = kernel;
  return {};
}

Status DeviceCode::loadConstants() {
  const ByteSpan bytes = library.formats[format].constants;
  if (!bytes.size)
    return {};
  const std::string what = "the library's constants, " + std::to_string(bytes.size) +
                           " bytes, cannot be put on " + device.text();
  if (Result result = device.driver->memAlloc(&constantsAt, bytes.size); result != kSuccess) {
    constantsAt = nullptr;
    return deviceError(*device.driver, what, result);
  }
  if (Result result = device.driver->memcpyHtoD(constantsAt, bytes.data, bytes.size);
      result != kSuccess)
    return deviceError(*device.driver, what, result);
  return {};
}

void DeviceCode::unload() {
  if (module)
    device.driver->moduleUnload(module);
  if (constantsAt)
    device.driver->memFree(constantsAt);
  module = nullptr, constantsAt = nullptr;
}

} // namespace kvq::cuda

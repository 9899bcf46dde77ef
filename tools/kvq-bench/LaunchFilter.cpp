// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-bench/LaunchFilter.h"

#include "tools/device/CudaDriver.h"

#include <map>

namespace kvq {
namespace {

using namespace cuda;

/// The driver that the runtime sees, and the names of the functions of all modules.
struct Filter {
  Driver driver;
  std::map<Function, std::string> names;
  std::string leftOut;
};

Filter &filter() {
  static Filter it;
  return it;
}

Result getFunction(Function *function, Module module, const char *name) {
  const Result result = toolDriver().base->moduleGetFunction(function, module, name);
  if (result == kSuccess)
    filter().names[*function] = name;
  return result;
}

Result launch(const LaunchConfig *config, Function function, void **parameters, void **extra) {
  const auto found = filter().names.find(function);
  if (found != filter().names.end() && found->second == filter().leftOut)
    return kSuccess;
  return toolDriver().base->launchKernelEx(config, function, parameters, extra);
}

} // namespace

void installLaunchFilter() {
  filter().driver = *toolDriver().base;
  filter().driver.moduleGetFunction = getFunction;
  filter().driver.launchKernelEx = launch;
  setFindDriver([](const Driver *&out) -> Status {
    out = &filter().driver;
    return {};
  });
}

void leaveOutKernel(const std::string &name) { filter().leftOut = name; }

} // namespace kvq

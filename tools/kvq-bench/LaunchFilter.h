// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Leaves kernels out of the launches of the runtime, so that decode can be timed without the
// kernels in front of it: the runtime is given a driver that forgets these launches.
#pragma once

#include <string>

namespace kvq {

/// Must run before the first library is opened.
void installLaunchFilter();
/// From now on kernels of that name are not launched; "" leaves out none.
void leaveOutKernel(const std::string &name);

} // namespace kvq

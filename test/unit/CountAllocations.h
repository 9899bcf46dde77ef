// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace kvq::test {

/// Blocks of memory that this thread has asked operator new for. Linking this file replaces it.
int allocationCount();

} // namespace kvq::test

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "mlir/IR/Location.h"

#include <string>

namespace mlir::kvq {

/// Links `object` into a shared object with the system linker: c++, cc, clang or ld, whichever PATH
/// has first. Nothing but the object goes in. Fails with a diagnostic at `loc` that carries the
/// linker's message.
FailureOr<std::string> linkShared(llvm::StringRef object, Location loc);

} // namespace mlir::kvq

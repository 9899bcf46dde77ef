// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libstdc++'s handler of uncaught exceptions prints the type's name and takes the demangler with
// it, a tenth of the shared library. No exception leaves the interface, so the library's own copy
// of libstdc++ gets a handler that only ends the process. Processes keep theirs: this symbol is
// not exported, and this file is in the shared library alone.

#include <cstdlib>

namespace __gnu_cxx {

void __verbose_terminate_handler() { std::abort(); } // NOLINT(bugprone-reserved-identifier)

} // namespace __gnu_cxx

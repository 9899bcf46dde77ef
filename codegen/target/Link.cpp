// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/target/Link.h"

#include "mlir/IR/Diagnostics.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::kvq {
namespace {

/// A directory that disappears with its files.
class TemporaryDirectory {
public:
  explicit TemporaryDirectory(std::error_code &error) {
    error = llvm::sys::fs::createUniqueDirectory("kvq", path);
  }
  ~TemporaryDirectory() {
    if (!path.empty())
      llvm::sys::fs::remove_directories(path);
  }
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;

  std::string file(StringRef name) const {
    SmallString<128> result = path;
    llvm::sys::path::append(result, name);
    return std::string(result);
  }

private:
  SmallString<128> path;
};

std::string readFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

struct Linker {
  std::string program;
  bool isDriver = true; ///< a compiler driver, which must be told to add no libraries
};

std::optional<Linker> findLinker() {
  for (const char *name : {"c++", "cc", "clang", "ld"})
    if (llvm::ErrorOr<std::string> program = llvm::sys::findProgramByName(name))
      return Linker{*program, StringRef(name) != "ld"};
  return std::nullopt;
}

} // namespace

FailureOr<std::string> linkShared(StringRef object, Location loc) {
  std::optional<Linker> linker = findLinker();
  if (!linker)
    return emitError(loc)
           << "target cpu expects a linker on PATH: c++, cc, clang or ld; found none";
  std::error_code error;
  TemporaryDirectory directory(error);
  if (error)
    return emitError(loc) << "cannot create a temporary directory: " << error.message();
  std::string input = directory.file("kernels.o"), output = directory.file("kernels.so");
  std::string log = directory.file("log");
  {
    llvm::raw_fd_ostream stream(input, error);
    stream << object;
    stream.close();
    if (stream.has_error())
      error = stream.error();
    stream.clear_error();
  }
  if (error)
    return emitError(loc) << "cannot write the object of the kernels: " << error.message();
  SmallVector<StringRef> arguments = {linker->program, "-shared", "-o", output, input};
  if (linker->isDriver)
    arguments.append({"-nostdlib", "-Wl,-z,noexecstack"});
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log), StringRef(log)};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(linker->program, arguments, std::nullopt, redirects, 0, 0,
                                         &message);
  if (status != 0)
    return emitError(loc) << linker->program << " could not link the kernels (status " << status
                          << "): " << message << readFile(log);
  std::string result = readFile(output);
  if (result.empty())
    return emitError(loc) << linker->program << " wrote no shared object";
  return result;
}

} // namespace mlir::kvq

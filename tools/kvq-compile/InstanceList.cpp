// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-compile/InstanceList.h"

#include "codegen/artifact/CompileInstances.h"
#include "runtime/format/file.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <chrono>
#include <map>
#include <sys/resource.h>

namespace mlir::kvq {
namespace {

LogicalResult fail(const llvm::Twine &message) {
  llvm::errs() << "kvq-compile: " << message << "\n";
  return failure();
}

/// Most memory that this process, or one of its children, has had, in MiB.
int64_t peakMemory(int who) {
  rusage usage = {};
  getrusage(who, &usage);
  return usage.ru_maxrss / 1024;
}

class ListCompiler {
public:
  ListCompiler(const std::string &folder, bool ptx, size_t count, bool progress)
      : folder(folder), ptx(ptx), progress(progress), count(count) {}

  void take(CompiledInstance instance) {
    const std::string name = printKernelName(instance.name);
    std::string error = instance.error;
    size_t size = 0;
    if (error.empty())
      error = write(name, instance, size);
    failures += !error.empty();
    bytes += size;
    ++finished;
    if (error.empty() && !progress)
      return;
    llvm::errs() << llvm::formatv("kvq-compile: {0}/{1} {2}: ", finished, count, name);
    if (error.empty())
      llvm::errs() << size << " bytes\n";
    else
      llvm::errs() << "error: " << error << "\n";
  }

  LogicalResult finish() {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    llvm::errs() << llvm::formatv(
        "kvq-compile: {0} of {1} kernels in {2:F1} s, peak memory {3} MiB "
        "(ptxas {4} MiB), {5} bytes in {6}\n",
        count - failures, count, seconds, peakMemory(RUSAGE_SELF), peakMemory(RUSAGE_CHILDREN),
        bytes, folder);
    llvm::json::Array list;
    for (auto &[name, entry] : entries)
      list.push_back(std::move(entry));
    std::string text;
    llvm::raw_string_ostream(text) << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(list)));
    if (std::string error =
            ::kvq::writeFile(folder + "/instances.json", {{text.data(), text.size()}});
        !error.empty())
      return fail(error);
    return failures ? fail(llvm::Twine(failures) + " kernels could not be compiled") : success();
  }

private:
  std::string write(const std::string &name, CompiledInstance &instance, size_t &size) {
    if (!ptx && instance.cubin.empty())
      return "expected ptxas, found none: KVQ_PTXAS, PATH, CUDA_HOME or the toolkit's folder";
    entries.emplace(name, llvm::json::Object{{"name", name},
                                             {"ptx_sha256", instance.module.ptxDigest},
                                             {"llvm", instance.module.llvm},
                                             {"ptxas", instance.module.ptxas}});
    std::string code = std::move(instance.ptx);
    if (!ptx)
      if (std::string error =
              ::kvq::libraryBytes(instanceLibrary(instance.name, std::move(instance.module)), code);
          !error.empty())
        return error;
    size = code.size();
    return ::kvq::writeFile(folder + "/" + name + (ptx ? ".ptx" : ".kvqlib"),
                            {{code.data(), code.size()}});
  }

  const std::string &folder;
  const bool ptx, progress;
  const size_t count;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  size_t finished = 0, failures = 0;
  uint64_t bytes = 0;
  std::map<std::string, llvm::json::Object> entries;
};

} // namespace

LogicalResult compileInstanceList(const std::vector<KernelName> &names, const std::string &folder,
                                  bool ptx, unsigned jobs, bool progress) {
  if (std::error_code error = llvm::sys::fs::create_directories(folder))
    return fail("cannot make folder '" + folder + "': " + error.message());
  ListCompiler list(folder, ptx, names.size(), progress);
  compileInstances(names, jobs, !ptx,
                   [&](CompiledInstance instance) { list.take(std::move(instance)); });
  return list.finish();
}

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/artifact/CompileInstances.h"

#include "mlir/IR/Diagnostics.h"

#include <atomic>
#include <mutex>
#include <thread>

namespace mlir::kvq {

CompiledInstance compileInstance(const KernelName &name, bool machineCode) {
  CompiledInstance out;
  out.name = name;
  const std::optional<Chip> chip = findChip(name.chip);
  const ::kvq::CacheMethod method = methodOf(name);
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    out.error += (out.error.empty() ? "" : "; ") + diagnostic.str();
    return success();
  });
  const Location loc = NameLoc::get(StringAttr::get(&context, method.name));
  auto ignore = [](StringRef, function_ref<void(llvm::raw_ostream &)>) {};
  FailureOr<GpuCode> code = compileGpu(loc, method, *chip, machineCode, ignore);
  if (failed(code))
    return out;
  out.error.clear(); // remarks and warnings
  out.ptx = code->ptx, out.cubin = code->cubin;
  out.module = gpuModule(method, *chip, std::move(*code));
  return out;
}

void compileInstances(const std::vector<KernelName> &names, unsigned jobs, bool machineCode,
                      const std::function<void(CompiledInstance)> &done) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  auto work = [&] {
    for (size_t i; (i = next++) < names.size();) {
      CompiledInstance instance = compileInstance(names[i], machineCode);
      std::lock_guard<std::mutex> lock(mutex);
      done(std::move(instance));
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::min<size_t>(jobs, names.size()); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}

FormatArtifact instanceArtifact(const KernelName &name, std::vector<GpuModule> modules) {
  FormatArtifact artifact{methodOf(name)};
  artifact.pipeline = "// instance " + artifact.method.name + "\n";
  artifact.modules = std::move(modules);
  return artifact;
}

::kvq::LibraryContents instanceLibrary(const KernelName &name, GpuModule module) {
  return buildLibrary({instanceArtifact(name, {std::move(module)})});
}

} // namespace mlir::kvq

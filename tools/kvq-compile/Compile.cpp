// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-compile/Compile.h"

#include "codegen/artifact/CompileCpu.h"
#include "codegen/artifact/CompileGpu.h"
#include "codegen/artifact/LibraryBuilder.h"
#include "codegen/conversion/BuildKernels.h"
#include "codegen/conversion/FindCache.h"
#include "passes/Passes.h"
#include "passes/analysis/ReadMethod.h"
#include "runtime/format/file.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

namespace mlir::kvq {
namespace {

/// One compile: the state that its stages share.
class Compiler {
public:
  explicit Compiler(const CompileOptions &options)
      : options(options), handler(sources, &context, llvm::errs()) {
    // The diagnostic shows the line of the source; the whole operation behind it hides the message.
    context.printOpOnDiagnostic(false);
  }

  LogicalResult run();

private:
  LogicalResult parse();
  LogicalResult optimize();
  LogicalResult generate();
  LogicalResult generateInstance();
  LogicalResult emitCpu(const CacheAttention &found, CpuArtifact &artifact);
  LogicalResult emitGpu(Location loc, const ::kvq::CacheMethod &method, const Chip &chip,
                        std::vector<GpuModule> &modules);
  LogicalResult finish(CpuArtifact artifact, std::vector<GpuModule> modules);
  LogicalResult writeLibrary(CpuArtifact artifact, std::vector<GpuModule> modules);
  void observe(StringRef target, StringRef name, function_ref<void(llvm::raw_ostream &)> print);
  LogicalResult write(StringRef bytes);
  void stage(StringRef name, StringRef extension, function_ref<void(llvm::raw_ostream &)> print);
  LogicalResult fail(const llvm::Twine &message) {
    llvm::errs() << "kvq-compile: " << message << "\n";
    return failure();
  }

  const CompileOptions &options;
  MLIRContext context;
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler;
  OwningOpRef<ModuleOp> module;
  int stages = 0;
  bool dumped = true;
  std::string llvmText, cubin;
};

void Compiler::stage(StringRef name, StringRef extension,
                     function_ref<void(llvm::raw_ostream &)> print) {
  llvm::errs() << "kvq-compile: " << name << "\n";
  if (options.dumpStages.empty())
    return;
  SmallString<128> path(options.dumpStages);
  llvm::sys::path::append(path, std::to_string(stages++) + "-" + name + extension);
  std::string text;
  llvm::raw_string_ostream stream(text);
  print(stream);
  if (std::string error = ::kvq::writeFile(path.str().str(), {{text.data(), text.size()}});
      !error.empty()) {
    dumped = false;
    (void)fail("--dump-stages: " + error);
  }
}

LogicalResult Compiler::parse() {
  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> file = openInputFile(options.input, &error);
  if (!file)
    return fail(error);
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  context.loadDialect<KVQDialect, func::FuncDialect>();
  module = parseSourceFile<ModuleOp>(sources, &context);
  return success(static_cast<bool>(module));
}

LogicalResult Compiler::optimize() {
  PassManager passes(&context);
  buildOptimizePipeline(passes, {options.calibration, options.placement});
  if (failed(passes.run(*module)))
    return failure();
  stage("optimized", ".mlir", [&](llvm::raw_ostream &stream) { module->print(stream); });
  return success();
}

LogicalResult Compiler::write(StringRef bytes) {
  if (!dumped)
    return failure();
  if (options.output == "-") {
    llvm::outs() << bytes;
    return success();
  }
  std::string error = ::kvq::writeFile(options.output, {{bytes.data(), bytes.size()}});
  return error.empty() ? success() : fail(error);
}

LogicalResult Compiler::writeLibrary(CpuArtifact artifact, std::vector<GpuModule> modules) {
  const ::kvq::RecordLayout layout = ::kvq::buildRecord(artifact.method.record());
  size_t code = artifact.sharedObject.size(), constants = artifact.constants.size();
  std::string targets =
      options.cpu ? "cpu (" + cpuLevelName(options.level).str() + ")" : std::string();
  for (const GpuModule &module : modules) {
    targets += (targets.empty() ? "" : ", ") + module.target + " (" + module.level + ")";
    code += module.code.size();
  }
  std::string bytes;
  if (std::string error =
          ::kvq::libraryBytes(buildLibrary(std::move(artifact), std::move(modules)), bytes);
      !error.empty())
    return fail(error);
  if (failed(write(bytes)))
    return failure();
  llvm::errs() << "kvq-compile: wrote " << options.output << ": 4 kernels for " << targets << ", "
               << bytes.size() << " bytes (code " << code << ", constants " << constants
               << "), page " << layout.spec.page << ": " << layout.stride << " bytes, "
               << llvm::formatv("{0:F3}", ::kvq::bitsPerElement(layout)) << " bits per element\n";
  return success();
}

/// The text of a stage goes to the folder of stages, and the LLVM IR to the output if it is asked
/// for.
void Compiler::observe(StringRef target, StringRef name,
                       function_ref<void(llvm::raw_ostream &)> print) {
  StringRef extension = name == "llvm" ? ".ll" : name == "ptx" ? ".ptx" : ".mlir";
  stage(target == "cpu" ? name.str() : (name + "-" + target).str(), extension, print);
  if (name == "llvm" && options.emit == EmitKind::llvm) {
    llvm::raw_string_ostream stream(llvmText);
    print(stream);
  }
}

LogicalResult Compiler::emitCpu(const CacheAttention &found, CpuArtifact &artifact) {
  FailureOr<::kvq::CacheMethod> method = readTargetMethod(found, "cpu");
  if (failed(method))
    return failure();
  auto watch = [&](StringRef name, function_ref<void(llvm::raw_ostream &)> print) {
    observe("cpu", name, print);
  };
  CacheOp cache = found.cache;
  Location loc = cache.getLoc();
  FailureOr<std::string> code = options.emit == EmitKind::library
                                    ? compileCpuShared(loc, *method, options.level, watch)
                                    : compileCpuObject(loc, *method, options.level, watch);
  if (failed(code))
    return failure();
  artifact.sharedObject = std::move(*code);
  return success();
}

LogicalResult Compiler::emitGpu(Location loc, const ::kvq::CacheMethod &method, const Chip &chip,
                                std::vector<GpuModule> &modules) {
  auto watch = [&](StringRef name, function_ref<void(llvm::raw_ostream &)> print) {
    observe(chip.name, name, print);
  };
  bool machineCode = options.emit == EmitKind::cubin || options.emit == EmitKind::library;
  FailureOr<GpuCode> code = compileGpu(loc, method, chip, machineCode, watch);
  if (failed(code))
    return failure();
  if (options.emit == EmitKind::cubin && code->cubin.empty())
    return fail("--emit=cubin: expected ptxas in PATH, CUDA_HOME or the toolkit's folder, found "
                "none");
  if (!code->log.empty())
    stage(std::string("ptxas-") + chip.name, ".txt",
          [&](llvm::raw_ostream &stream) { stream << code->log; });
  cubin = code->cubin;
  modules.push_back(gpuModule(method, chip, std::move(*code)));
  return success();
}

/// The kernels of a name: there is no source to read.
LogicalResult Compiler::generateInstance() {
  const KernelName &name = *options.instance;
  CpuArtifact artifact{methodOf(name), "", "", options.level, ""};
  artifact.pipeline = "// instance " + artifact.method.name + "\n";
  std::vector<GpuModule> modules;
  Location loc = NameLoc::get(StringAttr::get(&context, artifact.method.name));
  for (const Chip &chip : options.chips)
    if (failed(emitGpu(loc, artifact.method, chip, modules)))
      return failure();
  return finish(std::move(artifact), std::move(modules));
}

LogicalResult Compiler::generate() {
  FailureOr<CacheAttention> found = findCache(*module);
  if (failed(found))
    return failure();
  FailureOr<::kvq::CacheMethod> method =
      readTargetMethod(*found, options.cpu ? "cpu" : options.chips.front().name);
  if (failed(method))
    return failure();
  CpuArtifact artifact{*method, "", "", options.level, ""};
  std::vector<char> constants;
  if (options.emit == EmitKind::library &&
      failed(packConstants(artifact.method, found->cache, constants)))
    return failure();
  artifact.constants.assign(constants.begin(), constants.end());
  if (options.cpu && failed(emitCpu(*found, artifact)))
    return failure();
  std::vector<GpuModule> modules;
  for (const Chip &chip : options.chips) {
    FailureOr<::kvq::CacheMethod> chipMethod = readTargetMethod(*found, chip.name);
    if (failed(chipMethod) || failed(emitGpu(found->cache.getLoc(), *chipMethod, chip, modules)))
      return failure();
  }
  // Constants have their own blob: the pipeline's text leaves large values out.
  llvm::raw_string_ostream stream(artifact.pipeline);
  module->print(stream, OpPrintingFlags().elideLargeElementsAttrs(16).elideLargeResourceString(64));
  return finish(std::move(artifact), std::move(modules));
}

/// Writes what was asked for.
LogicalResult Compiler::finish(CpuArtifact artifact, std::vector<GpuModule> modules) {
  if (options.emit == EmitKind::llvm)
    return write(llvmText);
  if (options.emit == EmitKind::object)
    return write(artifact.sharedObject);
  if (options.emit != EmitKind::library)
    return write(options.emit == EmitKind::cubin ? cubin : modules.front().code);
  return writeLibrary(std::move(artifact), std::move(modules));
}

LogicalResult Compiler::run() {
  if (!options.instance && failed(parse()))
    return failure();
  if (!options.dumpStages.empty())
    if (std::error_code error = llvm::sys::fs::create_directories(options.dumpStages))
      return fail("--dump-stages: cannot make folder '" + options.dumpStages +
                  "': " + error.message());
  if (options.instance)
    return generateInstance();
  stage("input", ".mlir", [&](llvm::raw_ostream &stream) { module->print(stream); });
  if (failed(optimize()))
    return failure();
  if (options.emit != EmitKind::mlir)
    return generate();
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  return write(text);
}

} // namespace

LogicalResult compile(const CompileOptions &options) { return Compiler(options).run(); }

} // namespace mlir::kvq

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-compile/Compile.h"

#include "codegen/artifact/CompileCpu.h"
#include "codegen/artifact/CompileGpu.h"
#include "codegen/artifact/CompileInstances.h"
#include "codegen/artifact/LibraryBuilder.h"
#include "codegen/artifact/ModelLayers.h"
#include "codegen/conversion/BuildKernels.h"
#include "codegen/conversion/FindCache.h"
#include "passes/Passes.h"
#include "passes/analysis/ReadMethod.h"
#include "runtime/format/file.h"
#include "tools/kvq-compile/BuildSummary.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

#include <chrono>

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
  LogicalResult check(ArrayRef<CacheAttention> caches);
  FailureOr<FormatArtifact> generateCache(const CacheAttention &found, size_t format);
  LogicalResult build(size_t format, StringRef target,
                      function_ref<LogicalResult(TargetBuild &)> emit);
  LogicalResult emitCpu(const CacheAttention &found, TargetBuild &build, FormatArtifact &artifact);
  LogicalResult emitGpu(Location loc, const ::kvq::CacheMethod &method, const Chip &chip,
                        TargetBuild &build, FormatArtifact &artifact);
  LogicalResult finish(std::vector<FormatArtifact> formats,
                       std::vector<::kvq::LibraryLayer> layers = {});
  LogicalResult writeLibrary(std::vector<FormatArtifact> formats,
                             std::vector<::kvq::LibraryLayer> layers);
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
  std::string cacheSuffix; ///< of stages: "-" and the cache where there are several
  std::string llvmText, cubin;
  std::vector<TargetBuild> builds; ///< by format, then target
};

void Compiler::stage(StringRef name, StringRef extension,
                     function_ref<void(llvm::raw_ostream &)> print) {
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

LogicalResult Compiler::writeLibrary(std::vector<FormatArtifact> formats,
                                     std::vector<::kvq::LibraryLayer> layers) {
  std::vector<std::string> lines;
  for (const FormatArtifact &format : formats)
    lines.push_back(formatSummary(format));
  const ::kvq::LibraryContents contents = buildLibrary(std::move(formats), std::move(layers));
  std::string bytes;
  if (std::string error = ::kvq::libraryBytes(contents, bytes); !error.empty())
    return fail(error);
  if (failed(write(bytes)))
    return failure();
  llvm::errs() << "kvq-compile: wrote " << options.output << ": " << bytes.size() << " bytes\n"
               << librarySummary(contents, lines, builds);
  return success();
}

/// The text of a stage goes to the folder of stages, and the LLVM IR to the output if it is asked
/// for.
void Compiler::observe(StringRef target, StringRef name,
                       function_ref<void(llvm::raw_ostream &)> print) {
  StringRef extension = name == "llvm" ? ".ll" : name == "ptx" ? ".ptx" : ".mlir";
  stage(name.str() + (target == "cpu" ? "" : "-" + target.str()) + cacheSuffix, extension, print);
  if (name == "llvm" && options.emit == EmitKind::llvm) {
    llvm::raw_string_ostream stream(llvmText);
    print(stream);
  }
}

/// Times `emit`, which makes the code of one of `builds`.
LogicalResult Compiler::build(size_t format, StringRef target,
                              function_ref<LogicalResult(TargetBuild &)> emit) {
  auto at = llvm::find_if(builds, [&](const TargetBuild &build) {
    return build.format == format && build.target == target;
  });
  if (options.progress)
    llvm::errs() << "kvq-compile: " << at - builds.begin() + 1 << "/" << builds.size() << " @"
                 << at->cache << " for " << target << "\n";
  const auto start = std::chrono::steady_clock::now();
  LogicalResult result = emit(*at);
  at->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

LogicalResult Compiler::emitCpu(const CacheAttention &found, TargetBuild &build,
                                FormatArtifact &artifact) {
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
  build.level = cpuLevelName(options.level).str();
  build.bytes = artifact.sharedObject.size();
  return success();
}

LogicalResult Compiler::emitGpu(Location loc, const ::kvq::CacheMethod &method, const Chip &chip,
                                TargetBuild &build, FormatArtifact &artifact) {
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
    stage(std::string("ptxas-") + chip.name + cacheSuffix, ".txt",
          [&](llvm::raw_ostream &stream) { stream << code->log; });
  cubin = code->cubin;
  artifact.modules.push_back(gpuModule(method, chip, std::move(*code)));
  build.level = artifact.modules.back().level;
  build.bytes = artifact.modules.back().code.size();
  return success();
}

/// The kernels of a name: there is no source to read.
LogicalResult Compiler::generateInstance() {
  FormatArtifact artifact = instanceArtifact(*options.instance, {});
  Location loc = NameLoc::get(StringAttr::get(&context, artifact.method.name));
  for (const Chip &chip : options.chips)
    builds.push_back({0, artifact.method.name, chip.name});
  for (const Chip &chip : options.chips)
    if (failed(build(0, chip.name, [&](TargetBuild &build) {
          return emitGpu(loc, artifact.method, chip, build, artifact);
        })))
      return failure();
  std::vector<FormatArtifact> formats;
  formats.push_back(std::move(artifact));
  return finish(std::move(formats));
}

/// Text of what a cache was compiled from. Constants have their own blob: it leaves large values
/// out.
static std::string pipelineText(CacheAttention found) {
  const OpPrintingFlags flags =
      OpPrintingFlags().elideLargeElementsAttrs(16).elideLargeResourceString(64);
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto add = [&](Operation *op) {
    op->print(stream, flags);
    stream << "\n";
  };
  for (auto constants : found.cache->getParentOfType<ModuleOp>().getOps<ConstantsOp>())
    add(constants);
  add(found.cache.getKeyPipeline());
  if (found.cache.getKeyPipeline() != found.cache.getValuePipeline())
    add(found.cache.getValuePipeline());
  add(found.cache);
  add(found.attention->getParentOfType<func::FuncOp>());
  return text;
}

/// Asks for every cache and target before code is made, which takes long: all refusals are told at
/// once.
LogicalResult Compiler::check(ArrayRef<CacheAttention> caches) {
  std::string reason;
  ScopedDiagnosticHandler listener(&context, [&](Diagnostic &diagnostic) {
    if (reason.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      reason = diagnostic.str();
    return failure(); // goes on to the handler that prints it
  });
  std::vector<std::string> targets(options.cpu ? 1 : 0, "cpu");
  for (const Chip &chip : options.chips)
    targets.push_back(chip.name);
  bool refused = false;
  for (auto [format, found] : llvm::enumerate(caches))
    for (const std::string &target : targets) {
      reason.clear();
      refused |= failed(readTargetMethod(found, target));
      CacheOp cache = found.cache;
      builds.push_back({format, cache.getSymName().str(), target});
      builds.back().refusal = reason;
    }
  if (refused)
    llvm::errs() << refusalSummary(builds);
  return failure(refused);
}

FailureOr<FormatArtifact> Compiler::generateCache(const CacheAttention &found, size_t format) {
  CacheOp cache = found.cache;
  FailureOr<::kvq::CacheMethod> method =
      readTargetMethod(found, options.cpu ? "cpu" : options.chips.front().name);
  if (failed(method))
    return failure();
  FormatArtifact artifact{*method};
  artifact.level = options.level;
  std::vector<char> constants;
  if (options.emit == EmitKind::library &&
      failed(packConstants(artifact.method, cache, found.attention, constants)))
    return failure();
  artifact.constants.assign(constants.begin(), constants.end());
  if (options.cpu && failed(build(format, "cpu", [&](TargetBuild &build) {
        return emitCpu(found, build, artifact);
      })))
    return failure();
  for (const Chip &chip : options.chips) {
    FailureOr<::kvq::CacheMethod> chipMethod = readTargetMethod(found, chip.name);
    if (failed(chipMethod) || failed(build(format, chip.name, [&](TargetBuild &build) {
          return emitGpu(cache.getLoc(), *chipMethod, chip, build, artifact);
        })))
      return failure();
  }
  artifact.pipeline = pipelineText(found);
  return artifact;
}

LogicalResult Compiler::generate() {
  FailureOr<SmallVector<CacheAttention>> caches = findCaches(*module);
  if (failed(caches))
    return failure();
  FailureOr<std::vector<::kvq::LibraryLayer>> layers = modelLayers(*module, *caches);
  if (failed(layers))
    return failure();
  if (options.emit != EmitKind::library && failed(findCache(*module)))
    return failure(); // what is written then is the code of one cache
  if (failed(check(*caches)))
    return failure();
  std::vector<FormatArtifact> formats;
  for (CacheAttention found : *caches) {
    if (caches->size() > 1)
      cacheSuffix = "-" + found.cache.getSymName().str();
    FailureOr<FormatArtifact> artifact = generateCache(found, formats.size());
    if (failed(artifact))
      return failure();
    formats.push_back(std::move(*artifact));
  }
  return finish(std::move(formats), std::move(*layers));
}

/// Writes what was asked for.
LogicalResult Compiler::finish(std::vector<FormatArtifact> formats,
                               std::vector<::kvq::LibraryLayer> layers) {
  FormatArtifact &first = formats.front();
  if (options.emit == EmitKind::llvm)
    return write(llvmText);
  if (options.emit == EmitKind::object)
    return write(first.sharedObject);
  if (options.emit != EmitKind::library)
    return write(options.emit == EmitKind::cubin ? cubin : first.modules.front().code);
  return writeLibrary(std::move(formats), std::move(layers));
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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/target/Ptx.h"

#include "codegen/target/Translate.h"

#include "mlir/IR/Diagnostics.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace mlir::kvq {
namespace {

std::unique_ptr<llvm::TargetMachine> targetMachine(const Chip &chip, Location loc) {
  static std::once_flag registered; // the registry is not made for threads
  std::call_once(registered, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    emitError(loc) << "target " << chip.name
                   << " expects an LLVM with the NVPTX backend: " << error;
    return nullptr;
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, chip.name, chip.ptx, options, std::nullopt, std::nullopt,
                                  llvm::CodeGenOptLevel::Aggressive));
}

/// A file that is removed when the object goes.
struct TemporaryFile {
  SmallString<128> path;
  explicit TemporaryFile(StringRef suffix) {
    if (llvm::sys::fs::createTemporaryFile("kvq", suffix, path))
      path.clear();
  }
  ~TemporaryFile() {
    if (!path.empty())
      llvm::sys::fs::remove(path);
  }
};

std::string contents(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

} // namespace

std::unique_ptr<llvm::Module> translateToLlvm(ModuleOp module, llvm::LLVMContext &context,
                                              const Chip &chip) {
  std::unique_ptr<llvm::TargetMachine> machine = targetMachine(chip, module.getLoc());
  return machine ? translateOptimized(module, context, *machine) : nullptr;
}

FailureOr<std::string> emitPtx(llvm::Module &module, const Chip &chip, Location loc) {
  std::unique_ptr<llvm::TargetMachine> machine = targetMachine(chip, loc);
  if (!machine)
    return failure();
  FailureOr<std::string> text = emitFile(module, *machine, llvm::CodeGenFileType::AssemblyFile,
                                         "PTX for " + std::string(chip.name), loc);
  if (failed(text))
    return failure();
  const std::string &ptx = *text;
  if (ptx.find(".extern .func") != std::string::npos)
    return emitError(loc) << "the kernels expect no function from outside, the PTX declares one";
  if (ptx.find(".local ") != std::string::npos)
    return emitError(loc)
           << "the kernels expect their fragments in registers, the PTX keeps some in "
              "local memory";
  return text;
}

std::string findPtxas() {
  if (auto given = llvm::sys::Process::GetEnv("KVQ_PTXAS"))
    return llvm::sys::fs::can_execute(*given) ? *given : "";
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"})
    if (auto home = llvm::sys::Process::GetEnv(variable))
      if (auto found = llvm::sys::findProgramByName("ptxas", {*home + "/bin"}))
        return *found;
  if (auto found = llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"}))
    return *found;
  return "";
}

std::string ptxasVersion(StringRef ptxas) {
  TemporaryFile output("txt");
  if (output.path.empty())
    return "";
  StringRef arguments[] = {ptxas, "--version"};
  std::optional<StringRef> redirects[] = {std::nullopt, StringRef(output.path), std::nullopt};
  llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects);
  // "Cuda compilation tools, release 13.0, V13.0.88"
  const std::string text = contents(output.path);
  return StringRef(text).split(", V").second.take_until(llvm::isSpace).str();
}

FailureOr<std::string> assemble(StringRef ptxas, StringRef ptx, const Chip &chip, Location loc,
                                std::string &log) {
  TemporaryFile source("ptx"), object("cubin"), messages("log");
  if (source.path.empty() || object.path.empty() || messages.path.empty())
    return emitError(loc) << "cannot make a temporary file for ptxas";
  {
    std::error_code error;
    llvm::raw_fd_ostream stream(source.path, error);
    stream << ptx;
    stream.close();
    if (error || stream.has_error())
      return emitError(loc) << "cannot write the temporary file " << source.path;
  }
  std::string target = "-arch=" + std::string(chip.name);
  StringRef arguments[] = {ptxas, target, "-O3", "-v", source.path, "-o", object.path};
  std::optional<StringRef> redirects[] = {std::nullopt, StringRef(messages.path),
                                          StringRef(messages.path)};
  std::string error;
  int status = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects, 0, 0, &error);
  log = contents(messages.path);
  const std::string version = status != 0 ? ptxasVersion(ptxas) : "";
  if (status != 0)
    return emitError(loc) << "ptxas cannot assemble the kernels for " << chip.name
                          << ", which expects CUDA " << chip.cuda << " or later, got " << ptxas
                          << (version.empty() ? "" : " of CUDA " + version) << ": "
                          << (error.empty() ? log : error);
  return contents(object.path);
}

} // namespace mlir::kvq

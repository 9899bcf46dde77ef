// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/target/CpuObject.h"

#include "codegen/target/Translate.h"

#include "mlir/IR/Diagnostics.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

namespace mlir::kvq {
namespace {

/// One target machine per call: a target machine serves one thread.
std::unique_ptr<llvm::TargetMachine> targetMachine(CpuLevel level, Location loc) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    emitError(loc) << "target cpu expects an LLVM with the x86 backend: " << error;
    return nullptr;
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  // The kernels are written in 512-bit vectors; without this LLVM would split them for v4.
  StringRef features = level == CpuLevel::v4 ? "-prefer-256-bit" : "";
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, cpuLevelName(level), features, options, llvm::Reloc::PIC_,
                                  std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// Refuses objects that need more of the host than memset and its kin.
LogicalResult checkSymbols(StringRef object, Location loc) {
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernels"));
  if (!file)
    return emitError(loc) << "the object of the kernels is damaged: "
                          << llvm::toString(file.takeError());
  static const llvm::StringSet<> known = {"memset", "memcpy", "memmove", "_GLOBAL_OFFSET_TABLE_"};
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    uint32_t flags = llvm::cantFail(symbol.getFlags());
    StringRef name = llvm::cantFail(symbol.getName());
    if ((flags & llvm::object::SymbolRef::SF_Undefined) && !name.empty() && !known.contains(name))
      return emitError(loc) << "the kernels expect no library function but memset, memcpy and "
                               "memmove, got a call of "
                            << name;
  }
  return success();
}

} // namespace

std::optional<CpuLevel> parseCpuLevel(StringRef name) {
  for (CpuLevel level : {CpuLevel::baseline, CpuLevel::v3, CpuLevel::v4})
    if (cpuLevelName(level) == name)
      return level;
  return std::nullopt;
}

StringRef cpuLevelName(CpuLevel level) {
  return level == CpuLevel::baseline ? "x86-64" : level == CpuLevel::v3 ? "x86-64-v3" : "x86-64-v4";
}

CpuLevel hostCpuLevel() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto has = [&](std::initializer_list<const char *> names) {
    return llvm::all_of(names, [&](const char *name) { return features.lookup(name); });
  };
  if (!has({"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}))
    return CpuLevel::baseline;
  return has({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) ? CpuLevel::v4
                                                                          : CpuLevel::v3;
}

CpuFeatures featuresOf(CpuLevel level) {
  bool modern = level != CpuLevel::baseline;
  return {/*fma=*/modern, /*f16c=*/modern};
}

std::unique_ptr<llvm::Module> translateToLlvm(ModuleOp module, llvm::LLVMContext &context,
                                              CpuLevel level) {
  std::unique_ptr<llvm::TargetMachine> machine = targetMachine(level, module.getLoc());
  return machine ? translateOptimized(module, context, *machine) : nullptr;
}

FailureOr<std::string> emitObject(llvm::Module &module, CpuLevel level, Location loc) {
  std::unique_ptr<llvm::TargetMachine> machine = targetMachine(level, loc);
  if (!machine)
    return failure();
  FailureOr<std::string> object = emitFile(module, *machine, llvm::CodeGenFileType::ObjectFile,
                                           "objects for " + cpuLevelName(level).str(), loc);
  if (failed(object) || failed(checkSymbols(*object, loc)))
    return failure();
  return object;
}

} // namespace mlir::kvq

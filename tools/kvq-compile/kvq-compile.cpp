// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kvq-compile: pipelines and a cache in, a library of kernels out.
#include "tools/kvq-compile/Compile.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"

namespace cl = llvm::cl;
using namespace mlir::kvq;

static cl::OptionCategory category("kvq-compile options");
static cl::opt<std::string> input(cl::Positional, cl::desc("<input.mlir>"), cl::init("-"),
                                  cl::cat(category));
static cl::opt<std::string> output("o", cl::desc("File to write; - is standard output"),
                                   cl::value_desc("file"), cl::cat(category));
static cl::opt<std::string>
    calibration("calibration", cl::desc("Calibration file that gives constants their values"),
                cl::value_desc("file"), cl::cat(category));
static cl::list<std::string> targets("targets", cl::CommaSeparated,
                                     cl::desc("Targets to build kernels for: cpu (default) and chips, as "
                                              "in --targets=sm_90a,cpu"),
                                     cl::value_desc("names"), cl::cat(category));
static cl::opt<std::string>
    level("cpu-level", cl::init("host"), cl::value_desc("level"), cl::cat(category),
          cl::desc("Instruction set of the cpu target: host (default), x86-64, x86-64-v3 or "
                   "x86-64-v4"));
static cl::opt<std::string> dumpStages("dump-stages",
                                       cl::desc("Folder that gets the text of every stage"),
                                       cl::value_desc("folder"), cl::cat(category));
static cl::opt<std::string>
    placement("output-rotation", cl::init("rotate"), cl::cat(category),
              cl::desc("rotate: the kernels rotate the output back (default); weights: the "
                       "output projection holds the inverse"));
static cl::opt<EmitKind>
    emit("emit", cl::init(EmitKind::library), cl::cat(category), cl::desc("What to write:"),
         cl::values(clEnumValN(EmitKind::mlir, "mlir", "the optimised module (level 2)"),
                    clEnumValN(EmitKind::llvm, "llvm", "LLVM IR of the kernels"),
                    clEnumValN(EmitKind::object, "object", "an object file of the CPU kernels"),
                    clEnumValN(EmitKind::ptx, "ptx", "PTX text of the kernels of one chip"),
                    clEnumValN(EmitKind::cubin, "cubin", "machine code of one chip (ptxas)"),
                    clEnumValN(EmitKind::library, "library", "a library file (default)")));

static int fail(const llvm::Twine &message) {
  llvm::errs() << "kvq-compile: " << message << "\n";
  return 1;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv,
      "compiles the pipelines and the cache of a module into a library of attention kernels.\n"
      "On an error there is one diagnostic, exit status 1, and nothing is written.\n");
  std::vector<Chip> chips;
  bool cpu = targets.empty();
  for (const std::string &target : targets) {
    std::optional<Chip> chip = findChip(target);
    if (!chip && target != "cpu")
      return fail("--targets: expected cpu, " + chipNames() + ", got '" + target + "'");
    if (chip)
      chips.push_back(*chip);
    cpu |= !chip;
  }
  if (placement != "rotate" && placement != "weights")
    return fail("--output-rotation: expected rotate or weights, got '" + placement + "'");
  std::optional<CpuLevel> cpuLevel = level == "host" ? hostCpuLevel() : parseCpuLevel(level);
  if (!cpuLevel)
    return fail("--cpu-level: expected host, x86-64, x86-64-v3 or x86-64-v4, got '" + level + "'");
  if ((emit == EmitKind::ptx || emit == EmitKind::cubin) && (cpu || chips.size() != 1))
    return fail("--emit=ptx and --emit=cubin: expected --targets with one chip");
  if (emit == EmitKind::object && !cpu)
    return fail("--emit=object: expected --targets=cpu");
  const bool text = emit == EmitKind::mlir || emit == EmitKind::llvm || emit == EmitKind::ptx;
  if (output.empty() && !text)
    return fail("expected -o FILE, got none; see --help");
  CompileOptions options{input,      calibration, output.empty() ? "-" : output.getValue(),
                         dumpStages, placement,   emit,
                         *cpuLevel,  cpu,         chips};
  return failed(compile(options)) ? 1 : 0;
}

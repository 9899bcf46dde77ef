// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kvq-compile: pipelines and a cache in, a library of kernels out.
#include "codegen/artifact/Instances.h"
#include "tools/kvq-compile/Compile.h"
#include "tools/kvq-compile/InstanceList.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Process.h"

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
static cl::list<std::string>
    targets("targets", cl::CommaSeparated,
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

static cl::opt<std::string>
    instance("instance", cl::value_desc("name"), cl::cat(category),
             cl::desc("Compile the GPU kernels of this name instead of an input: plain attention "
                      "without a calibration"));
static cl::opt<bool> instances("instances", cl::cat(category),
                               cl::desc("Print the standard list of GPU kernels"));
static cl::opt<std::string>
    allInstances("all-instances", cl::value_desc("folder"), cl::cat(category),
                 cl::desc("Compile the list into libraries in this folder (--emit=ptx: PTX)"));
static cl::opt<unsigned> randomCount("random", cl::value_desc("count"), cl::cat(category),
                                     cl::desc("The list is this many random other kernels"));
static cl::opt<unsigned> seed("seed", cl::value_desc("number"), cl::init(1), cl::cat(category),
                              cl::desc("Seed of --random (default: 1)"));
static cl::opt<unsigned> jobs("jobs", cl::value_desc("count"), cl::init(2), cl::cat(category),
                              cl::desc("Kernels of --all-instances at a time (default: 2)"));

static cl::opt<bool> progress("progress", cl::cat(category),
                              cl::desc("Say on standard error what is being compiled, also where "
                                       "that is no terminal"));

static int fail(const llvm::Twine &message) {
  llvm::errs() << "kvq-compile: " << message << "\n";
  return 1;
}

static bool showProgress() { return progress || llvm::sys::Process::StandardErrIsDisplayed(); }

/// --instances and --all-instances: the standard list, or random kernels, of sm_90a or the one chip
/// of --targets.
static int runList(const std::vector<Chip> &chips) {
  if (chips.size() > 1 || (emit != EmitKind::library && emit != EmitKind::ptx))
    return fail("--instances and --all-instances: expected --targets with one chip, and "
                "--emit=library or ptx");
  const Chip chip = chips.empty() ? *findChip("sm_90a") : chips.front();
  const std::vector<KernelName> names =
      randomCount ? randomInstances(chip, int(randomCount), seed) : standardInstances(chip);
  if (instances)
    llvm::outs() << instancesText(names);
  if (allInstances.empty())
    return 0;
  return failed(
             compileInstanceList(names, allInstances, emit == EmitKind::ptx, jobs, showProgress()))
             ? 1
             : 0;
}

/// Fills what --instance says, the chip too; empty, or what is wrong with it.
static std::string readInstance(CompileOptions &options, bool cpu) {
  KernelName name;
  if (std::string error = parseKernelName(instance, name); !error.empty())
    return error;
  if (name.role != ::kvq::KernelRole::decode || !name.rest.empty())
    return "expected the name of a decode kernel without 'x' and a digest, got '" + instance + "'";
  if ((cpu && !targets.empty()) || options.chips.size() > 1 ||
      (!options.chips.empty() && options.chips.front().name != name.chip))
    return "expected --targets=" + name.chip + ", the chip of the name, or no --targets";
  options.cpu = false;
  options.chips = {*findChip(name.chip)};
  if (std::string reason = unsupportedInstance(name, options.chips.front()); !reason.empty())
    return reason;
  options.instance = std::move(name);
  return "";
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv,
      "compiles the pipelines and the cache of a module into a library of attention kernels.\n"
      "On an error there are diagnostics, exit status 1, and nothing is written.\n");
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
  if (instances || !allInstances.empty())
    return runList(chips);
  CompileOptions options{input,      calibration, output.empty() ? "-" : output.getValue(),
                         dumpStages, placement,   emit,
                         *cpuLevel,  cpu,         chips};
  options.progress = showProgress();
  if (!instance.empty()) {
    if (std::string error = readInstance(options, cpu); !error.empty())
      return fail("--instance: " + error);
    if (emit == EmitKind::mlir || emit == EmitKind::object)
      return fail("--instance: expected --emit=llvm, ptx, cubin or library");
    cpu = false, chips = options.chips;
  }
  if ((emit == EmitKind::ptx || emit == EmitKind::cubin) && (cpu || chips.size() != 1))
    return fail("--emit=ptx and --emit=cubin: expected --targets with one chip");
  if (emit == EmitKind::object && !cpu)
    return fail("--emit=object: expected --targets=cpu");
  const bool text = emit == EmitKind::mlir || emit == EmitKind::llvm || emit == EmitKind::ptx;
  if (output.empty() && !text)
    return fail("expected -o FILE, got none; see --help");
  return failed(compile(options)) ? 1 : 0;
}

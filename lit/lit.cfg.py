# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Configuration of the FileCheck suite: every .mlir and .test file below this folder is a test."""

import os

import lit.formats

config.name = "kvq"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.kvq_build_dir, "lit")

tools = os.path.join(config.kvq_build_dir, "bin")
config.environment["PATH"] = os.pathsep.join([tools, config.llvm_tools_dir, config.environment.get("PATH", "")])
for name in ("KVQ_PTXAS", "CUDA_HOME"):  # where tests find ptxas
    if name in os.environ:
        config.environment[name] = os.environ[name]
# For tests that change PATH.
config.substitutions.append(("%kvq-compile", os.path.join(tools, "kvq-compile")))
config.substitutions.append(("%examples", os.path.join(config.kvq_source_dir, "docs", "examples")))
config.substitutions.append(("%scripts", os.path.join(config.kvq_source_dir, "tools", "scripts")))
config.substitutions.append(("%dialect", os.path.join(config.kvq_source_dir, "dialect")))
config.substitutions.append(("%data", os.path.join(config.kvq_source_dir, "test", "data")))

# The three ways in which an op must survive: printed, in generic form, and as bytecode.
config.substitutions.append(
    (
        "%roundtrip",
        "kvq-opt --verify-roundtrip %s -o - | kvq-opt --mlir-print-op-generic"
        " | kvq-opt --emit-bytecode | kvq-opt",
    )
)

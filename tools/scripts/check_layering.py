#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks who includes whom. The rule is the two tables below; every #include of every tracked C, C++ and TableGen
file is held against them, so a border of the architecture cannot be crossed unnoticed.

usage: tools/scripts/check_layering.py [ROOT]
"""

import pathlib
import posixpath
import re
import sys

from source_tree import ROOT, report, tracked_files

# Layer -> layers it may include beside itself. A layer is the longest entry that is a prefix of the path.
ALLOWED = {
    "runtime/include": set(),
    "runtime/format": {"runtime/include"},
    "runtime/lib": {"runtime/include", "runtime/format"},
    "runtime/reference": {"runtime/include", "runtime/format"},
    "calib": {"runtime/include", "runtime/format", "runtime/reference"},
    "dialect": {"runtime/include/kvq/layout.h"},
    "passes": {"dialect", "runtime/format"},
    "codegen": {"passes", "dialect", "runtime/include", "runtime/format"},
}
# These may include everything above, and each other's headers within the folder; nothing may include them.
TOPS = ("tools", "test", "lit", "docs")

# Layer -> prefixes of other projects' headers that it must not see.
FOREIGN = {
    "runtime": ("mlir/", "llvm/", "absl/", "Eigen/"),
    "calib": ("mlir/", "llvm/"),
    "dialect": ("absl/", "Eigen/", "nlohmann/"),
    "passes": ("absl/", "Eigen/"),
    "codegen": ("absl/", "Eigen/"),
}

SOURCE = re.compile(r"\.(h|hpp|c|cc|cpp|inc|td)$")
INCLUDE = re.compile(r'^\s*#?\s*include\s+(?:"([^"]+)"|<([^>]+)>)')


def layer_of(path):
    """The layer a path of the repository belongs to, or None."""
    for layer in ALLOWED:
        if path.startswith(layer + "/"):
            return layer
    top = path.split("/", 1)[0]
    return top if top in TOPS else None


def resolve(including, name):
    """Path in the repository that an include names, or None for a header of another project.

    Headers are written from the root of the repository, installed ones as kvq/..., neighbours by file name. Generated
    headers do not exist in the tree, so the spelling decides and not the file system.
    """
    if name.startswith("kvq/"):
        return "runtime/include/" + name
    if name.startswith("./") or name.startswith("../"):
        return posixpath.normpath(posixpath.join(posixpath.dirname(including), name))
    if layer_of(name) or name.startswith("runtime/"):
        return name
    return None


def may_include(layer, target):
    """True when a file of `layer` may include the file `target` of the repository."""
    target_layer = layer_of(target)
    if target_layer == layer:
        return True
    if layer in TOPS:
        return target_layer not in TOPS or layer == "test"
    return target_layer in ALLOWED[layer] or target in ALLOWED[layer]


def violation(path, name):
    """One sentence about the include of `name` in `path`, or None when it is allowed."""
    layer = layer_of(path)
    if layer is None:
        return "the file is in no known layer"
    target = resolve(path, name)
    if target is None:
        forbidden = FOREIGN.get(layer) or FOREIGN.get(layer.split("/")[0], ())
        if name.startswith(forbidden):
            return f"{layer} must not see '{name}'"
        return None
    if may_include(layer, target):
        return None
    if layer in TOPS:
        return f"{layer} includes '{name}', but nothing may include {layer_of(target)}"
    allowed = ", ".join(sorted(ALLOWED[layer])) or "nothing but itself"
    return f"{layer} includes '{name}', but may include only {allowed}"


def check_text(path, text):
    """All violations of one file as `path:line: sentence`."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            sentence = violation(path, match.group(1) or match.group(2))
            if sentence:
                found.append(f"{path}:{number}: {sentence}")
    return found


def main(arguments):
    root = pathlib.Path(arguments[0]) if arguments else ROOT
    files = [path for path in tracked_files(root) if SOURCE.search(path)]
    problems = []
    for path in files:
        problems += check_text(path, (root / path).read_text(encoding="utf-8"))
    return report("layering", problems, len(files))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

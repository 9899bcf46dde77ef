#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints how many GPU kernels of the instance list were not seen to pass on a real GPU.

codegen/instances.txt names the kernels of the standard list, one a line, '#' opens a comment; a GPU kernel's name ends
in __sm<arch>. test/gpu/verified.json, written by the run on a GPU alone, maps names to the digests of what passed. A
missing list holds no kernel.

usage: tools/scripts/count_unverified.py [ROOT]
"""

import json
import pathlib
import re
import sys

from source_tree import ROOT

GPU_KERNEL = re.compile(r"__sm\d+[af]?$")


def gpu_kernels(text):
    """Names of the GPU kernels in the text of an instance list."""
    lines = (line.split("#", 1)[0].split() for line in text.splitlines())
    return [words[0] for words in lines if words and GPU_KERNEL.search(words[0])]


def unverified(names, verified):
    """Names that `verified`, a mapping of names, does not hold."""
    return [name for name in names if name not in verified]


def main(arguments):
    root = pathlib.Path(arguments[0]) if arguments else ROOT
    instances, verified = root / "codegen/instances.txt", root / "test/gpu/verified.json"
    names = gpu_kernels(instances.read_text(encoding="utf-8")) if instances.is_file() else []
    passed = json.loads(verified.read_text(encoding="utf-8")) if verified.is_file() else {}
    print(f"kernels not GPU-verified: {len(unverified(names, passed))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

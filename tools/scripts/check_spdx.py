#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that every tracked file which can hold a comment opens with the licence line (second line after a '#!').

usage: tools/scripts/check_spdx.py [ROOT]
"""

import pathlib
import re
import sys

from source_tree import ROOT, report, tracked_files

LINE = "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"
# Formats without comments, and files whose bytes are data.
EXEMPT = re.compile(r"(^LICENSE|\.(json|safetensors|kvqlib|bin|npz|npy|png|ptx))$|^test/data/|^test/abi/data/|^test/fuzz/corpus/")


def has_licence(text):
    """True when the first line (or the second, after a '#!') carries the licence line."""
    lines = text.split("\n", 2)
    first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
    return LINE in first


def main(arguments):
    root = pathlib.Path(arguments[0]) if arguments else ROOT
    files = [path for path in tracked_files(root) if not EXEMPT.search(path)]
    problems = []
    for path in files:
        text = (root / path).read_bytes()[:400].decode("utf-8", errors="replace")
        if not has_licence(text):
            problems.append(f"{path}:1: expected '{LINE}' in the first line")
    return report("licence line", problems, len(files))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

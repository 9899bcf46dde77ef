#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lists source files over 400 lines and fails on any over 700: a file that long wants to be two.

usage: tools/scripts/check_sizes.py [ROOT]
"""

import pathlib
import re
import sys

from source_tree import ROOT, report, tracked_files

NORM, LIMIT = 400, 700
SOURCE = re.compile(r"\.(h|c|cc|cpp|td|py|sh|mlir|cmake|txt|in|md)$")
GENERATED = re.compile(r"^docs/generated/|^test/data/")


def oversized(sizes):
    """(files over the norm, problems) of a list of (path, number of lines)."""
    long = sorted((item for item in sizes if item[1] > NORM), key=lambda item: -item[1])
    problems = [f"{path}: {lines} lines, at most {LIMIT} allowed" for path, lines in long if lines > LIMIT]
    return long, problems


def main(arguments):
    root = pathlib.Path(arguments[0]) if arguments else ROOT
    files = [path for path in tracked_files(root) if SOURCE.search(path) and not GENERATED.search(path)]
    sizes = [(path, (root / path).read_bytes().count(b"\n")) for path in files]
    long, problems = oversized(sizes)
    for path, lines in long:
        if lines <= LIMIT:
            print(f"note: {path}: {lines} lines, the norm is {NORM}")
    return report("file sizes", problems, len(files))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

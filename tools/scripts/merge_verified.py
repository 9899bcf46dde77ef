#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Merges reports of gpu-check into the list of kernels that passed on a real GPU.

usage: tools/scripts/merge_verified.py [--ptx FOLDER] [--llvm VERSION] [--ptxas VERSION] [--keep]
           [-o test/gpu/verified.json] REPORT...
For each library that passed every check (all data kinds and lengths, and large pools, on a CUDA device) the list holds
its name and the digest of its PTX without comments and constants, the versions of LLVM and ptxas, the digest of the
numeric suite and the device. The PTX is FOLDER/NAME.ptx, or its digest stands in the library's manifest as
compiler.ptx_sha256; versions come from compiler.llvm and compiler.ptxas there, unless given. Reports of parts of one
run merge; --keep also keeps what the list holds already, if it was verified by the same suite. Exits 1, and changes
nothing, when a library in a report did not pass, or was run by another suite than the checkout's.
"""

import argparse
import hashlib
import json
import pathlib
import re
import sys

from source_tree import ROOT

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# An array with values is data: `.global .align 16 .b8 name[64] = {1, 2}` keeps its head.
CONSTANT = re.compile(r"=\s*\{[^}]*\}")


def ptx_digest(text):
    """SHA-256 of PTX without comments, values of constants and differences of white space."""
    text = CONSTANT.sub("= {}", COMMENT.sub(" ", text))
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()


def suite_digest(root):
    """The digest that tools/gpu-check/CMakeLists.txt forms of the files in test/gpu/suite.txt."""
    lines = ""
    for name in (root / "test/gpu/suite.txt").read_text(encoding="utf-8").splitlines():
        if name and not name.startswith("#"):
            lines += f"{hashlib.sha256((root / name).read_bytes()).hexdigest()} {name}\n"
    return hashlib.sha256(lines.encode()).hexdigest()


def version(compiler, given, key, name):
    """The version of a part of the compiler: what was given, else what the manifest says."""
    found = given or compiler.get(key)
    if not found:
        raise ValueError(f"{name}: the manifest names no version of {key}; give --{key}")
    return found


def digest_of(library, folder):
    """Digest of the PTX of a library of a report."""
    name, stated = library["name"], library.get("compiler", {}).get("ptx_sha256")
    found = ptx_digest((folder / f"{name}.ptx").read_text(encoding="utf-8")) if folder else stated
    if not found:
        raise ValueError(f"{name}: the manifest has no compiler.ptx_sha256; give --ptx")
    if stated and stated != found:
        raise ValueError(f"{name}: the PTX in the folder is not that of the library which was run")
    return found


def entries(report, suite, options):
    """{name: entry} of one report; ValueError says what is wrong with it."""
    if report["suite"] != suite:
        raise ValueError(f"the report is of suite {report['suite'][:12]}, the checkout has {suite[:12]}")
    found = {}
    for library in report["libraries"]:
        name = library["name"]
        if not library["passed"]:
            raise ValueError(f"{name}: did not pass")
        if not library["complete"]:
            raise ValueError(f"{name}: not every check was run; use gpu-check --large without --data and --lengths")
        compiler = library.get("compiler", {})
        found[name] = {
            "ptx": digest_of(library, options.ptx),
            "llvm": version(compiler, options.llvm, "llvm", name),
            "ptxas": version(compiler, options.ptxas, "ptxas", name),
            "suite": suite,
            "device": library["device"],
        }
    return found


def merge(reports, before, suite, options):
    """The list as a mapping, sorted by name."""
    merged = {name: entry for name, entry in before.items() if entry["suite"] == suite}
    for report in reports:
        for name, entry in entries(report, suite, options).items():
            if name in merged and name not in before and merged[name]["ptx"] != entry["ptx"]:
                raise ValueError(f"{name}: two reports are of different PTX")
            merged[name] = entry
    return dict(sorted(merged.items()))


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptx", type=pathlib.Path, help="folder of NAME.ptx")
    parser.add_argument("--llvm", help="version of LLVM")
    parser.add_argument("--ptxas", help="version of ptxas")
    parser.add_argument("--keep", action="store_true", help="keep entries of the list that no report names")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "test/gpu/verified.json")
    parser.add_argument("reports", nargs="+", type=pathlib.Path)
    return parser.parse_args(arguments)


def main(arguments, root=ROOT):
    options = parse_arguments(arguments)
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in options.reports]
    before = {}
    if options.keep and options.output.is_file():
        before = json.loads(options.output.read_text(encoding="utf-8"))
    merged = merge(reports, before, suite_digest(root), options)
    options.output.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    print(f"{options.output.name}: {len(merged)} kernels")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"merge_verified.py: {error}")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Merges reports of gpu-check into the list of kernels that passed on a real GPU.

usage: tools/scripts/merge_verified.py [--keep] [-o test/gpu/verified.json] REPORT...
For each library that passed every check (all data kinds and lengths, and large pools, on a CUDA device) the list holds,
under the full name of its decode kernel, the digest of its PTX without comments and constants, the versions of LLVM and
ptxas, the digest of the numeric suite and the device. All but the last two stand in the library's manifest, whose
modules the report repeats; a library of one GPU module is expected. Reports of parts of one run merge; --keep also keeps
what the list holds already, if it was verified by the same suite. Exits 1, and changes nothing, when a library in a
report did not pass, or was run by another suite than the checkout's.
"""

import argparse
import hashlib
import json
import pathlib
import sys

from source_tree import ROOT


def suite_digest(root):
    """The digest that tools/gpu-check/CMakeLists.txt forms of the files in test/gpu/suite.txt."""
    lines = ""
    for name in (root / "test/gpu/suite.txt").read_text(encoding="utf-8").splitlines():
        if name and not name.startswith("#"):
            lines += f"{hashlib.sha256((root / name).read_bytes()).hexdigest()} {name}\n"
    return hashlib.sha256(lines.encode()).hexdigest()


def module_of(library):
    """The GPU module that was run, as the manifest states it."""
    modules = library.get("modules", [])
    if len(modules) != 1:
        raise ValueError(f"{library['name']}: expected a library of one GPU module, got {len(modules)}")
    for key in ("name", "ptx_sha256", "llvm", "ptxas"):
        if not modules[0].get(key):
            raise ValueError(f"{library['name']}: the manifest states no {key} of the module")
    return modules[0]


def entries(report, suite):
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
        module = module_of(library)
        found[module["name"]] = {
            "ptx": module["ptx_sha256"],
            "llvm": module["llvm"],
            "ptxas": module["ptxas"],
            "suite": suite,
            "device": library["device"],
        }
    return found


def merge(reports, before, suite):
    """The list as a mapping, sorted by name."""
    merged = {name: entry for name, entry in before.items() if entry["suite"] == suite}
    for report in reports:
        for name, entry in entries(report, suite).items():
            if name in merged and name not in before and merged[name]["ptx"] != entry["ptx"]:
                raise ValueError(f"{name}: two reports are of different PTX")
            merged[name] = entry
    return dict(sorted(merged.items()))


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    merged = merge(reports, before, suite_digest(root))
    options.output.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    print(f"{options.output.name}: {len(merged)} kernels")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"merge_verified.py: {error}")

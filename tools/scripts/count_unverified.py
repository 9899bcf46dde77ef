#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints how many GPU kernels of the instance list were not seen to pass on a real GPU.

codegen/instances.txt names the kernels of the standard list, one a line, '#' opens a comment. test/gpu/verified.json,
written from runs on a GPU alone (merge_verified.py), maps names to the digests of what passed. A kernel counts as
verified when the list has it with the digest of today's PTX and of today's numeric suite. Today's digests are those of
DIGESTS, which the test assemble_instances or kvq-compile --all-instances wrote (default:
build/instances/instances.json); without that file, and for a kernel that it does not hold, none is.

usage: tools/scripts/count_unverified.py [--root ROOT] [--list] [DIGESTS]
"""

import argparse
import json
import pathlib
import sys

from merge_verified import suite_digest
from source_tree import ROOT


def instance_names(text):
    """Names in the text of an instance list."""
    lines = (line.split("#", 1)[0].split() for line in text.splitlines())
    return [words[0] for words in lines if words]


def digests_of(text):
    """{name: digest of its PTX} of the JSON that kvq-compile writes."""
    return {entry["name"]: entry["ptx_sha256"] for entry in json.loads(text)}


def unverified(names, digests, verified, suite):
    """Those of `names` that `verified` does not hold with these digests."""

    def passed(name):
        entry = verified.get(name, {})
        return name in digests and entry.get("ptx") == digests[name] and entry.get("suite") == suite

    return [name for name in names if not passed(name)]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--list", action="store_true", help="also print their names")
    parser.add_argument("digests", nargs="?", type=pathlib.Path)
    options = parser.parse_args(arguments)
    root, digests = options.root, options.digests or options.root / "build/instances/instances.json"
    verified = root / "test/gpu/verified.json"
    names = instance_names((root / "codegen/instances.txt").read_text(encoding="utf-8"))
    today = digests_of(digests.read_text(encoding="utf-8")) if digests.is_file() else {}
    passed = json.loads(verified.read_text(encoding="utf-8")) if verified.is_file() else {}
    left = unverified(names, today, passed, suite_digest(root))
    if options.list:
        print("\n".join(left))
    print(f"kernels not GPU-verified: {len(left)}" + ("" if today else " (no digests of this build)"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

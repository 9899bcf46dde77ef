#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the surface of the runtime's shared library: it defines exactly the functions that kvq/runtime.h declares, and
needs no library beside those of every C++ program.

usage: tools/scripts/check_exports.py LIBRARY [HEADER]
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "runtime/include/kvq/runtime.h"
ALLOWED = re.compile(r"(libc|libm|libdl|libpthread|libgcc_s|libstdc\+\+|ld-linux-[a-z0-9-]+)\.so(\.\d+)*$")


def declared(header):
    """Names of the functions that the header marks as exported."""
    return set(re.findall(r"\bKVQ_API\b[^;(]*?\b(kvq_\w+)\s*\(", header))


def defined(symbols):
    """Names that `readelf --dyn-syms --wide` lists as global or weak and defined."""
    names = set()
    for line in symbols.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK", "UNIQUE") and fields[6] not in ("UND", "ABS"):
            names.add(fields[7].split("@")[0])
    return names


def needed(dynamic):
    """Libraries that `readelf --dynamic` lists as needed."""
    return re.findall(r"\(NEEDED\).*\[(.+?)\]", dynamic)


def problems(header, symbols, dynamic):
    expected, got = declared(header), defined(symbols)
    found = [f"{name}: declared in the header, not exported" for name in sorted(expected - got)]
    found += [f"{name}: exported, not declared in the header" for name in sorted(got - expected)]
    found += [f"{name}: a library that the runtime must not need" for name in needed(dynamic)
              if not ALLOWED.match(name)]
    return found if expected else ["the header declares no function"]


def readelf(option, library):
    return subprocess.run(["readelf", "--wide", option, library], check=True, capture_output=True, text=True).stdout


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    header = pathlib.Path(arguments[1]) if len(arguments) == 2 else HEADER
    found = problems(header.read_text(), readelf("--dyn-syms", arguments[0]), readelf("--dynamic", arguments[0]))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

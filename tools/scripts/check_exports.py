#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the surface of the runtime's shared library: it defines exactly the functions that kvq/runtime.h declares, and
needs no library but libc's; the header holds no type of C++, LLVM or CUDA.

usage: tools/scripts/check_exports.py [--max-bytes N] LIBRARY [HEADER]
  --max-bytes N  the library without symbols and debug information is to be no larger
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "runtime/include/kvq/runtime.h"
# libstdc++ is linked in: a process may hold another one.
ALLOWED = re.compile(r"(libc|libm|libdl|libpthread|ld-linux-[a-z0-9-]+)\.so(\.\d+)*$")
HEADERS = {"stddef.h", "stdint.h"}
FOREIGN = re.compile(r"\b(std|class|template|namespace|typename|bool|(?:CU|cuda|nv)[a-z]\w*"
                     r"|\w*(?:llvm|LLVM|mlir|MLIR)\w*)\b")


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


def foreign(header):
    """What the code of the header, comments aside, takes from outside C."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header, flags=re.S)
    includes = re.findall(r"#\s*include\s*[<\"](.+?)[>\"]", code)
    return sorted(set(includes) - HEADERS) + sorted({match[0] for match in FOREIGN.finditer(code)})


def stripped_bytes(library):
    """Size of the file without symbols and debug information."""
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["strip", "--strip-all", "-o", file.name, library], check=True)
        return pathlib.Path(file.name).stat().st_size


def problems(header, symbols, dynamic):
    expected, got = declared(header), defined(symbols)
    found = [f"{name}: declared in the header, not exported" for name in sorted(expected - got)]
    found += [f"{name}: exported, not declared in the header" for name in sorted(got - expected)]
    found += [f"{name}: a library that the runtime must not need" for name in needed(dynamic)
              if not ALLOWED.match(name)]
    found += [f"{name}: in the header, which is to be plain C" for name in foreign(header)]
    return found if expected else ["the header declares no function"]


def readelf(option, library):
    return subprocess.run(["readelf", "--wide", option, library], check=True, capture_output=True, text=True).stdout


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-bytes", type=int)
    parser.add_argument("library")
    parser.add_argument("header", nargs="?", type=pathlib.Path, default=HEADER)
    args = parser.parse_args(arguments)
    symbols, dynamic = readelf("--dyn-syms", args.library), readelf("--dynamic", args.library)
    found = problems(args.header.read_text(), symbols, dynamic)
    if args.max_bytes is not None and (size := stripped_bytes(args.library)) > args.max_bytes:
        found.append(f"{args.library}: expected at most {args.max_bytes} bytes without symbols, got {size}")
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

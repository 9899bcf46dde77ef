#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the ```mlir examples of op descriptions in .td files through kvq-opt.

Every op must have at least one example that names it, and each example must parse, verify and round-trip. The example
of a tile op is one op in its generic spelling; it is closed over a function whose arguments are its operands."""

import argparse
import re
import subprocess
import sys

OP = re.compile(r"^def \w+Op\b[^\n]*?:\s*\w+<\"([\w.]+)\"", re.M)

TILE_OP = re.compile(r"kvq\.tile\.\w+(?P<operands>[^:{]*)(\{.*\})?\s*:\s*\((?P<types>[^)]*)\)\s*->", re.S)
# What the examples call #record: any record will do.
TILE_RECORD = """#side = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>
"""


def close(example):
    """A module around an example: a tile op becomes the body of a function over its operands."""
    match = TILE_OP.search(example)
    if not match:
        return example
    names = re.findall(r"%\w+", match["operands"])
    types = re.findall(r"(?:[^,<(]|<[^>]*>)+", match["types"])
    arguments = ", ".join(f"{name}: {kind.strip()}" for name, kind in zip(names, types))
    return f"{TILE_RECORD}func.func @example({arguments}) {{\n{example}\nreturn\n}}\n"


def ops_of(text):
    """[(mnemonic, [example, ...])] of one .td file, in order."""
    heads = list(OP.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    blocks = lambda part: re.findall(r"```mlir\n(.*?)```", part, re.S)
    return [(head.group(1), blocks(text[head.start() : end])) for head, end in zip(heads, ends)]


def run(example, kvq_opt):
    """The diagnostics of one example; empty when it is right."""
    command = [kvq_opt, "--verify-roundtrip", "-"]
    done = subprocess.run(command, input=close(example), capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def problems_of(path, kvq_opt):
    with open(path, encoding="utf-8") as file:
        ops = ops_of(file.read())
    if not ops:
        yield f"{path}: expected ops, found none"
    for mnemonic, examples in ops:
        if not any(f"kvq.{mnemonic} " in example for example in examples):
            yield f"{path}: {mnemonic}: expected an example that uses the op, found none"
        for example in examples:
            if error := run(example, kvq_opt):
                yield f"{path}: {mnemonic}: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--kvq-opt", default="kvq-opt")
    args = parser.parse_args()
    problems = [line for path in args.files for line in problems_of(path, args.kvq_opt)]
    for line in problems:
        print(line)
    print(f"{len(problems)} problems in the examples of {len(args.files)} files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

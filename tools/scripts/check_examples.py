#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the ```mlir examples of op descriptions in .td files through kvq-opt.

Every op must have at least one example that names it, and each example must parse, verify and round-trip."""

import argparse
import re
import subprocess
import sys

OP = re.compile(r"^def \w+Op\b[^\n]*?:\s*\w+<\"([\w.]+)\"", re.M)


def ops_of(text):
    """[(mnemonic, [example, ...])] of one .td file, in order."""
    heads = list(OP.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    blocks = lambda part: re.findall(r"```mlir\n(.*?)```", part, re.S)
    return [(head.group(1), blocks(text[head.start() : end])) for head, end in zip(heads, ends)]


def run(example, kvq_opt):
    """The diagnostics of one example; empty when it is right."""
    command = [kvq_opt, "--verify-roundtrip", "-"]
    done = subprocess.run(command, input=example, capture_output=True, text=True, check=False)
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

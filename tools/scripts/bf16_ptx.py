#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes tools/kvq-bench/bf16_decode.ptx from bf16_decode.cu; needs nvcc.

usage: tools/scripts/bf16_ptx.py [--check]
--check changes nothing. The text names the digest of its source, which is compared everywhere; where the release of
nvcc that made it is on the path, the text is made again and compared as well.
"""

import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from source_tree import ROOT

FOLDER = ROOT / "tools/kvq-bench"
OPTIONS = ["-ptx", "-arch=compute_90", "-std=c++17", "-O3", "-ftz=true"]
RELEASE = re.compile(r"Cuda compilation tools, release \S+ V[\d.]+")


def head(source):
    """First lines of the text made from a source (bytes)."""
    return ("// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n"
            "// Made by tools/scripts/bf16_ptx.py, not to be edited; the sha256 of bf16_decode.cu was\n"
            f"// {hashlib.sha256(source).hexdigest()}\n")


def problem(source, text, release, make):
    """What is wrong with `text` as made from `source`, or None. `release`: of nvcc, or None; `make`: makes the text."""
    if not text.startswith(head(source)):
        return "bf16_decode.ptx is not made from this bf16_decode.cu; run tools/scripts/bf16_ptx.py"
    if release and release in text and make() != text:
        return "bf16_decode.ptx is not what nvcc makes; run tools/scripts/bf16_ptx.py"
    return None


def nvcc_release(nvcc):
    """The line in which nvcc and its output name the release; None without nvcc."""
    if not nvcc:
        return None
    version = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    match = RELEASE.search(version)
    return match and match[0]


def make_text(nvcc, path):
    """The text: what nvcc makes, without empty lines and indentation."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "out.ptx"
        subprocess.run([nvcc, *OPTIONS, "-o", str(output), str(path)], check=True)
        lines = output.read_text(encoding="utf-8").splitlines()
    return head(path.read_bytes()) + "".join(line.strip() + "\n" for line in lines if line.strip())


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args(arguments)
    source, target, nvcc = FOLDER / "bf16_decode.cu", FOLDER / "bf16_decode.ptx", shutil.which("nvcc")
    if options.check:
        text = target.read_text(encoding="utf-8")
        found = problem(source.read_bytes(), text, nvcc_release(nvcc), lambda: make_text(nvcc, source))
        return f"bf16_ptx.py: {found}" if found else 0
    if not nvcc:
        return "bf16_ptx.py: nvcc is not on the path"
    target.write_text(make_text(nvcc, source), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

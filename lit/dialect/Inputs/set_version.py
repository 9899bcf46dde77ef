# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""set_version.py IN MAJOR MINOR OUT: rewrites the version entry of the kvq dialect (0.1) in an MLIR bytecode file."""

import sys

source, major, minor, target = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]


def varint(value):
    return 2 * value + 1  # one byte, for values below 128


with open(source, "rb") as file:
    data = file.read()
# Section 7 (dialect versions) of length 2 that holds 0 and 1.
entry = bytes([7, varint(2), varint(0), varint(1)])
if data.count(entry) != 1:
    sys.exit(f"expected one version entry 0.1 in {source}, found {data.count(entry)}")
with open(target, "wb") as file:
    file.write(data.replace(entry, bytes([7, varint(2), varint(major), varint(minor)])))

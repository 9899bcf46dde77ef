#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damages copies of a file, and runs a command on each: it must end with exit status 1 and one line on standard error.

usage: damage.py FILE COPY FIRST COMMAND...    bytes from FIRST on are changed; negative: from the end
"""

import subprocess
import sys

STEPS = 40

source, copy, first, *command = sys.argv[1:]
whole = open(source, "rb").read()
step = len(whole) // STEPS | 1
flipped = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(int(first) % len(whole), len(whole), step)]
cut = [whole[:size] for size in range(0, len(whole), step)]
damaged = flipped + cut + [whole + b"\0"]
refused = 0
for data in damaged:
    with open(copy, "wb") as file:
        file.write(data)
    result = subprocess.run([*command, copy], capture_output=True, text=True, check=False)
    if result.returncode == 1 and len(result.stderr.splitlines()) == 1 and not result.stdout:
        refused += 1
    else:
        print(f"not refused: {len(data)} bytes: {result.returncode} {result.stdout}{result.stderr}")
print(f"{refused} of {len(damaged)} damaged files refused")
sys.exit(refused != len(damaged))

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints how often kvq_decode of one PTX file has what matters, as a multiple of what that of another has.

Ratios hold whatever the schedule makes of the loops: both files have the same one.

usage: ptx_ratios.py BASE.ptx OTHER.ptx
"""

import pathlib
import re
import sys
from fractions import Fraction

PATTERNS = {
    "key MMA u8 x s8": r"mma\.sync\S*\.u8\.s8\.s32",
    "key MMA s8 x s8": r"mma\.sync\S*\.s8\.s8\.s32",
    "value MMA u8 x u8": r"mma\.sync\S*\.u8\.u8\.s32",
    "value MMA s8 x u8": r"mma\.sync\S*\.s8\.u8\.s32",
    "masks of 2 bits": r"\b(?:and|lop3)\.b32\b.*[ ,](?:50529027|202116108|808464432|-1061109568)\b",
    "masks of 4 bits": r"\b(?:and|lop3)\.b32\b.*[ ,](?:252645135|-252645136)\b",
    "16-byte loads": r"ld\.shared\.v4\.b32",
    "8-byte loads": r"ld\.shared\.v2\.b32",
    "transposes": r"movmatrix",
}


def counts(path):
    decode = pathlib.Path(path).read_text().split(".entry kvq_decode(", 1)[1]
    return {name: len(re.findall(pattern, decode)) for name, pattern in PATTERNS.items()}


base, other = map(counts, sys.argv[1:])
for name in PATTERNS:
    if base[name] and other[name]:
        print(f"{name}: x {Fraction(other[name], base[name])}")
    elif base[name] or other[name]:
        print(f"{name}: {'gone' if base[name] else 'new'}")

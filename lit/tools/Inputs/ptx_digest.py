# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the SHA-256 of PTX without comments, values of arrays and differences of white space.

Written apart from codegen/target/PtxDigest.cpp, as a second opinion.

usage: ptx_digest.py FILE.ptx
"""

import hashlib
import pathlib
import re
import sys

text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", pathlib.Path(sys.argv[1]).read_text(), flags=re.DOTALL)
text = re.sub(r"=\s*\{[^}]*\}", "= {}", text)
print(hashlib.sha256(" ".join(text.split()).encode()).hexdigest())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a calibration with a rotation of each of two heads: the quarter turn, and the quarter turn stretched by 1 %.

usage: rotation.py FILE [TEXT]    TEXT: of the metadata instead of the document
"""

import hashlib
import json
import struct
import sys

data = struct.pack("<8f", 0, -1, 1, 0, 0, -1.01, 1.01, 0)
document = {"version": 1, "method": "turn", "sha256": hashlib.sha256(data).hexdigest()}
text = sys.argv[2] if len(sys.argv) > 2 else json.dumps(document)
tensor = {"dtype": "F32", "shape": [2, 2, 2], "data_offsets": [0, len(data)]}
header = json.dumps({"__metadata__": {"kvq_calibration": text}, "layers.0.k.rotation": tensor}).encode()
header += b" " * (-len(header) % 8)
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header + data)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints a part of the manifest of a library, which is the first blob of its table.

usage: manifest.py LIBRARY EXPRESSION    prints the value of the Python expression over `m`, the manifest
"""

import json
import struct
import sys

data = open(sys.argv[1], "rb").read()
_, offset, size = struct.unpack_from("<QQQ", data, 128)
print(json.dumps(eval(sys.argv[2], {"m": json.loads(data[offset : offset + size])})))

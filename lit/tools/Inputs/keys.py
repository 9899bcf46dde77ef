#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the keys of a JSON document, in order, and those of the first object of each of its lists.

usage: keys.py FILE
"""

import json
import sys

document = json.load(open(sys.argv[1], encoding="utf-8"))
print(*document)
for key, value in document.items():
    if isinstance(value, list) and value and isinstance(value[0], dict):
        print(key + ":", *value[0])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the keys of a JSON document, in order, and those of the first object of each of its lists. Fails for a key
that a page does not name.

usage: keys.py FILE PAGE
"""

import json
import sys

document = json.load(open(sys.argv[1], encoding="utf-8"))
print(*document)
keys = set(document)
for key, value in document.items():
    objects = [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
    if objects:
        print(key + ":", *objects[0])
        keys.update(objects[0])
page = open(sys.argv[2], encoding="utf-8").read()
missing = sorted(key for key in keys if f"`{key}`" not in page)
if missing:
    sys.exit(f"{sys.argv[2]} does not name {', '.join(missing)}")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the tests that CTest knows, one a line: kind, name and program, separated by tabs.

The kind is `gtest` for the programs of kvq_add_test, which lie in test-bin, and `command` for any other.

usage: tools/scripts/list_ctest.py BUILD_FOLDER
"""

import json
import subprocess
import sys


def listed(text):
    """(kind, name, program) of each test in the JSON of `ctest --show-only=json-v1`."""
    tests = []
    for test in json.loads(text)["tests"]:
        program = test.get("command", [""])[0]
        kind = "gtest" if "/test-bin/" in program and len(test["command"]) == 1 else "command"
        tests.append((kind, test["name"], program))
    return tests


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    command = ["ctest", "--test-dir", arguments[0], "--show-only=json-v1"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for test in listed(text):
        print("\t".join(test))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

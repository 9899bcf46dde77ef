#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the cases in the reports of the test runners, so that tools/test.sh can add them up.

usage: tools/scripts/test_counts.py gtest|lit|unittest FILE
Prints `passed failed skipped`; exits 1 with a sentence when the report cannot be read or holds no case.
"""

import json
import re
import sys
import xml.etree.ElementTree


def count_gtest(text):
    """Counts of the JSON that GoogleTest writes with --gtest_output=json:FILE."""
    passed = failed = skipped = 0
    for suite in json.loads(text)["testsuites"]:
        for case in suite["testsuite"]:
            if case.get("failures"):
                failed += 1
            elif case.get("status") == "NOTRUN" or case.get("result") == "SKIPPED":
                skipped += 1
            else:
                passed += 1
    return passed, failed, skipped


def count_lit(text):
    """Counts of the JUnit XML that lit writes with --xunit-xml-output FILE."""
    passed = failed = skipped = 0
    for case in xml.etree.ElementTree.fromstring(text).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed += 1
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count_unittest(text):
    """Counts of what `python -m unittest` prints."""
    ran = re.search(r"^Ran (\d+) tests? in ", text, re.MULTILINE)
    if not ran:
        raise ValueError("no line 'Ran N tests'")
    closing = re.findall(r"^(?:OK|FAILED)(?: \((.*)\))?$", text, re.MULTILINE)
    if not closing:
        raise ValueError("no closing OK or FAILED")
    named = dict(part.split("=") for part in closing[-1].split(", ") if "=" in part)
    bad = sum(int(named.get(key, 0)) for key in ("failures", "errors", "unexpected successes"))
    skipped = int(named.get("skipped", 0))
    return max(int(ran.group(1)) - bad - skipped, 0), bad, skipped


COUNTERS = {"gtest": count_gtest, "lit": count_lit, "unittest": count_unittest}


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in COUNTERS:
        print(__doc__, file=sys.stderr)
        return 2
    kind, path = arguments
    try:
        with open(path, encoding="utf-8", errors="replace") as report:
            counts = COUNTERS[kind](report.read())
    except (OSError, ValueError, KeyError, xml.etree.ElementTree.ParseError) as error:
        print(f"no readable {kind} report: {error}", file=sys.stderr)
        return 1
    if sum(counts) == 0:
        print(f"the {kind} report holds no test case", file=sys.stderr)
        return 1
    print(*counts)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

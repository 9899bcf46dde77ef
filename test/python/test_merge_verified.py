# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Only complete runs of today's suite verify kernels."""

import io
import json
import pathlib
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/scripts"))

import merge_verified

def library(name, module=None, **changes):
    made = {
        "name": f"file of {name}", "passed": True, "complete": True, "device": "card",
        "modules": [{"name": name, "llvm": "22.1", "ptxas": "13.0", "ptx_sha256": "d" * 64, **(module or {})}],
    }
    made.update(changes)
    return made


class MergeVerified(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.place = pathlib.Path(self.folder.name)
        self.suite = merge_verified.suite_digest(ROOT)

    def report(self, name, libraries, suite=None):
        path = self.place / name
        path.write_text(json.dumps({"suite": suite or self.suite, "libraries": libraries}))
        return str(path)

    def merge(self, *arguments):
        output = self.place / "verified.json"
        with redirect_stdout(io.StringIO()):
            self.assertEqual(merge_verified.main(["-o", str(output), *arguments]), 0)
        return json.loads(output.read_text())

    def test_parts_merge(self):
        merged = self.merge(self.report("a", [library("b__sm90a")]), self.report("b", [library("a__sm90a")]))
        self.assertEqual(list(merged), ["a__sm90a", "b__sm90a"])
        self.assertEqual(merged["a__sm90a"], {
            "ptx": "d" * 64, "llvm": "22.1", "ptxas": "13.0", "suite": self.suite, "device": "card"})

    def test_two_reports_of_different_ptx(self):
        other = self.report("b", [library("k", {"ptx_sha256": "e" * 64})])
        with self.assertRaisesRegex(ValueError, "different PTX"):
            self.merge(self.report("a", [library("k")]), other)

    def test_refusals_change_nothing(self):
        before = self.merge(self.report("a", [library("k")]))
        for changes, suite, message in (
            ({"passed": False}, None, "did not pass"),
            ({"complete": False}, None, "not every check"),
            ({}, "0" * 64, "suite 000000000000"),
            ({"module": {"ptx_sha256": ""}}, None, "no ptx_sha256"),
            ({"module": {"ptxas": ""}}, None, "no ptxas"),
            ({"modules": []}, None, "one GPU module, got 0"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                self.merge(self.report("b", [library("n", **changes)], suite))
        self.assertEqual(json.loads((self.place / "verified.json").read_text()), before)

    def test_keep(self):
        self.merge(self.report("a", [library("k")]))
        self.assertEqual(list(self.merge("--keep", self.report("b", [library("l")]))), ["k", "l"])
        self.assertEqual(list(self.merge(self.report("b", [library("l")]))), ["l"])


if __name__ == "__main__":
    unittest.main()

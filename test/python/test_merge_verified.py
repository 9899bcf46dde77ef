# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Only complete runs of today's suite verify kernels; digests of PTX do not see what does not matter."""

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

PTX = """
// made by a compiler
.visible .entry kernel() { /* two
lines */ mov.u32 %r1, 1; ret; }
.const .align 4 .b32 table[2] = {1, 2};
"""


def library(name, **changes):
    made = {
        "name": name, "passed": True, "complete": True, "device": "card",
        "compiler": {"llvm": "22.1", "ptxas": "13.0", "ptx_sha256": "d" * 64},
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

    def test_comments_constants_and_spaces_do_not_count(self):
        digest = merge_verified.ptx_digest(PTX)
        same = PTX.replace("made by", "made  today by").replace("{1, 2}", "{3,4}").replace("lines */", "\n\n*/")
        self.assertEqual(merge_verified.ptx_digest(same), digest)
        for old, new in (("%r1, 1", "%r1, 2"), ("table[2]", "table[3]"), ("ret;", "")):
            self.assertNotEqual(merge_verified.ptx_digest(PTX.replace(old, new)), digest)

    def test_parts_merge(self):
        merged = self.merge(self.report("a", [library("b__sm90a")]), self.report("b", [library("a__sm90a")]))
        self.assertEqual(list(merged), ["a__sm90a", "b__sm90a"])
        self.assertEqual(merged["a__sm90a"], {
            "ptx": "d" * 64, "llvm": "22.1", "ptxas": "13.0", "suite": self.suite, "device": "card"})

    def test_ptx_of_a_folder(self):
        (self.place / "k.ptx").write_text(PTX)
        report = self.report("a", [library("k", compiler={})])
        merged = self.merge("--ptx", str(self.place), "--llvm", "1", "--ptxas", "2", report)
        self.assertEqual(merged["k"]["ptx"], merge_verified.ptx_digest(PTX))
        with self.assertRaisesRegex(ValueError, "not that of the library"):
            self.merge("--ptx", str(self.place), self.report("a", [library("k")]))

    def test_refusals_change_nothing(self):
        before = self.merge(self.report("a", [library("k")]))
        for changes, suite, message in (
            ({"passed": False}, None, "did not pass"),
            ({"complete": False}, None, "not every check"),
            ({}, "0" * 64, "suite 000000000000"),
            ({"compiler": {"llvm": "1", "ptxas": "1"}}, None, "no compiler.ptx_sha256"),
            ({"compiler": {"ptx_sha256": "d"}}, None, "version of llvm"),
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

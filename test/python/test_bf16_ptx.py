# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The text of the BF16 baseline is that of its source."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/scripts"))

import bf16_ptx


class Bf16Ptx(unittest.TestCase):
    def test_committed_text(self):
        self.assertEqual(bf16_ptx.main(["--check"]), 0)

    def test_another_source_is_noticed(self):
        text = bf16_ptx.head(b"source") + "// release 1\n"
        self.assertIsNone(bf16_ptx.problem(b"source", text, None, None))
        self.assertIn("not made from this", bf16_ptx.problem(b"other", text, None, None))

    def test_another_text_is_noticed_by_its_own_release_alone(self):
        text = bf16_ptx.head(b"source") + "// release 1\n"
        self.assertIsNone(bf16_ptx.problem(b"source", text, "release 1", lambda: text))
        self.assertIsNone(bf16_ptx.problem(b"source", text, "release 2", lambda: "other"))
        self.assertIn("not what nvcc makes", bf16_ptx.problem(b"source", text, "release 1", lambda: "other"))


if __name__ == "__main__":
    unittest.main()

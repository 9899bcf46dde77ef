# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The demonstration's table: numbers in their columns, and a refusal of another document."""

import io
import json
import pathlib
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/scripts"))

import demo_table

REPORT = {
    "model": "m", "text": "t", "tokens": 1024, "queries": 256, "page": 64,
    "layers": [{"layer": 4}, {"layer": 20}],
    "total": {
        "bits_per_element": 2.5, "method_error": 0.125, "kernel_error": 3e-4,
        "rounding_error": 2e-4, "projected_total_error": 0.25,
    },
}


class DemoTable(unittest.TestCase):
    def test_numbers_stand_under_their_titles(self):
        head, rule, row = demo_table.table([("int2", REPORT)])
        self.assertEqual(rule, "-" * len(head))
        for title, value in (("bits/element", "2.500"), ("method error", "0.125"), ("kernel error", "3.00e-04")):
            end = head.index(title) + len(title)
            self.assertTrue(row[:end].endswith(" " + value), row)

    def run_main(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "int2.json"
            path.write_text(text)
            with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
                return demo_table.main([str(path)]), out.getvalue(), err.getvalue()

    def test_program(self):
        status, out, _ = self.run_main(json.dumps(REPORT))
        self.assertEqual(status, 0)
        self.assertIn("m, layers 4, 20: 1024 tokens of 't'", out)
        self.assertIn("int2", out)

    def test_other_documents_are_refused(self):
        status, _, err = self.run_main("{}")
        self.assertEqual(status, 1)
        self.assertIn("lacks 'total'", err)
        status, _, err = self.run_main("no json")
        self.assertEqual(status, 1)
        self.assertIn("no report of kvq-run", err)


if __name__ == "__main__":
    unittest.main()

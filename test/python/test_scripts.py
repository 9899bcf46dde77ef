# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The checks of tools/scripts must be able to fail: each is shown a violation and a clean text."""

import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/scripts"))

import check_layering
import check_sizes
import check_spdx
import count_unverified
import test_counts


class Layering(unittest.TestCase):
    def refused(self, path, include, *words):
        problems = check_layering.check_text(path, f"// text\n#include {include}\n")
        self.assertEqual(len(problems), 1, problems)
        self.assertTrue(problems[0].startswith(f"{path}:2: "), problems[0])
        for word in words:
            self.assertIn(word, problems[0])

    def allowed(self, path, include):
        self.assertEqual(check_layering.check_text(path, f"#include {include}\n"), [])

    def test_upward_includes_are_refused(self):
        self.refused("runtime/include/kvq/layout.h", '"runtime/format/method.h"', "nothing but itself")
        self.refused("runtime/format/a.cpp", '"runtime/lib/loader.h"', "runtime/format", "runtime/lib")
        self.refused("runtime/lib/a.cpp", '"runtime/reference/oracle.h"', "runtime/lib includes")
        self.refused("calib/a.cpp", '"runtime/lib/loader.h"', "calib includes")
        self.refused("calib/a.cpp", '"dialect/KVQDialect.h"')
        self.refused("dialect/a.cpp", '"passes/Passes.h"')
        self.refused("dialect/a.cpp", '"runtime/format/method.h"', "layout.h")
        self.refused("dialect/a.cpp", '"kvq/runtime.h"')
        self.refused("passes/a.cpp", '"codegen/KernelName.h"')
        self.refused("passes/a.cpp", '"runtime/lib/loader.h"')
        self.refused("codegen/a.cpp", '"calib/observers/x.h"')
        self.refused("codegen/a.cpp", '"tools/kvq-opt/x.h"', "codegen includes")
        self.refused("tools/kvq-run/a.cpp", '"test/support/data.h"', "nothing may include test")

    def test_downward_includes_are_allowed(self):
        self.allowed("runtime/include/kvq/runtime.h", '"kvq/status.h"')
        self.allowed("runtime/lib/a.cpp", '"runtime/format/method.h"')
        self.allowed("runtime/lib/a.cpp", '"kvq/layout.h"')
        self.allowed("runtime/reference/a.cpp", '"runtime/format/method.h"')
        self.allowed("calib/a.cpp", '"runtime/reference/oracle.h"')
        self.allowed("dialect/a.cpp", '"kvq/layout.h"')
        self.allowed("passes/a.cpp", '"runtime/format/method.h"')
        self.allowed("codegen/a.cpp", '"passes/Passes.h"')
        self.allowed("tools/kvq-run/a.cpp", '"codegen/KernelName.h"')
        self.allowed("test/unit/a.cpp", '"test/support/data.h"')

    def test_other_spellings_do_not_escape(self):
        self.refused("calib/a.cpp", "<runtime/lib/loader.h>")
        self.refused("dialect/a.cpp", '"../passes/Passes.h"')
        # TableGen's include has no '#'.
        self.assertEqual(
            len(check_layering.check_text("dialect/a.td", 'include "passes/Passes.td"\n')), 1
        )
        # Generated headers are judged by their spelling.
        self.refused("dialect/a.cpp", '"passes/Passes.h.inc"')

    def test_headers_of_other_projects(self):
        self.refused("runtime/lib/a.cpp", '"llvm/ADT/StringRef.h"', "must not see")
        self.refused("calib/a.cpp", '"mlir/IR/Value.h"')
        self.refused("runtime/format/a.cpp", "<Eigen/Dense>")
        self.allowed("calib/a.cpp", "<Eigen/Dense>")
        self.allowed("dialect/a.cpp", '"mlir/IR/Value.h"')
        self.allowed("dialect/a.cpp", '"neighbour.h"')

    def test_a_file_outside_the_layers_is_refused(self):
        self.refused("misc/a.cpp", "<vector>", "no known layer")

    def test_the_program_fails_on_a_tree_with_a_violation(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "dialect").mkdir()
            (root / "dialect/a.cpp").write_text('#include "passes/Passes.h"\n')
            subprocess.run(["git", "-C", folder, "init", "-q"], check=True)
            subprocess.run(["git", "-C", folder, "add", "."], check=True)
            with redirect_stdout(io.StringIO()) as printed:
                self.assertEqual(check_layering.main([folder]), 1)
            self.assertIn("dialect/a.cpp:1: ", printed.getvalue())
            (root / "dialect/a.cpp").write_text('#include "dialect/KVQDialect.h"\n')
            with redirect_stdout(io.StringIO()):
                self.assertEqual(check_layering.main([folder]), 0)


class LicenceLine(unittest.TestCase):
    def test_first_line_or_after_the_interpreter(self):
        line = "# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n"
        self.assertTrue(check_spdx.has_licence(line + "text"))
        self.assertTrue(check_spdx.has_licence("#!/bin/sh\n" + line))
        self.assertFalse(check_spdx.has_licence("# text\n" + line))
        self.assertFalse(check_spdx.has_licence("# SPDX-License-Identifier: MIT\n"))
        self.assertFalse(check_spdx.has_licence(""))


class Sizes(unittest.TestCase):
    def test_limits(self):
        long, problems = check_sizes.oversized([("a", 400), ("b", 401), ("c", 700), ("d", 701)])
        self.assertEqual([path for path, _ in long], ["d", "c", "b"])
        self.assertEqual(problems, ["d: 701 lines, at most 700 allowed"])


class Counts(unittest.TestCase):
    def test_gtest(self):
        text = """{"testsuites": [{"testsuite": [
            {"name": "a", "status": "RUN", "result": "COMPLETED"},
            {"name": "b", "status": "RUN", "result": "COMPLETED", "failures": [{"failure": "x"}]},
            {"name": "c", "status": "NOTRUN", "result": "SUPPRESSED"},
            {"name": "d", "status": "RUN", "result": "SKIPPED"}]}]}"""
        self.assertEqual(test_counts.count_gtest(text), (1, 1, 2))

    def test_lit(self):
        text = """<testsuites><testsuite><testcase name="a"/><testcase name="b"/>
            <testcase name="c"><failure>x</failure></testcase>
            <testcase name="d"><skipped message="m"/></testcase></testsuite></testsuites>"""
        self.assertEqual(test_counts.count_lit(text), (2, 1, 1))

    def test_unittest(self):
        self.assertEqual(test_counts.count_unittest("Ran 7 tests in 0.1s\n\nOK\n"), (7, 0, 0))
        self.assertEqual(
            test_counts.count_unittest("Ran 7 tests in 1s\n\nFAILED (failures=1, errors=2, skipped=3)\n"),
            (1, 3, 3),
        )
        with self.assertRaises(ValueError):
            test_counts.count_unittest("Traceback\n")

    def test_an_empty_or_absent_report_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder, redirect_stderr(io.StringIO()) as printed:
            path = pathlib.Path(folder) / "r"
            self.assertEqual(test_counts.main(["gtest", str(path)]), 1)
            path.write_text('{"testsuites": []}')
            self.assertEqual(test_counts.main(["gtest", str(path)]), 1)
            path.write_text("not xml")
            self.assertEqual(test_counts.main(["lit", str(path)]), 1)
        self.assertIn("no test case", printed.getvalue())


class Unverified(unittest.TestCase):
    def test_what_passed_is_known_by_both_digests(self):
        names = count_unverified.instance_names("# list\ndecode_a  # first\n\ndecode_b\ndecode_c\n")
        self.assertEqual(names, ["decode_a", "decode_b", "decode_c"])
        digests = count_unverified.digests_of(
            '[{"name": "decode_a", "ptx_sha256": "1"}, {"name": "decode_b", "ptx_sha256": "2"}]'
        )
        verified = {name: {"ptx": ptx, "suite": "s"} for name, ptx in (("decode_a", "1"), ("decode_c", "3"))}
        self.assertEqual(count_unverified.unverified(names, digests, verified, "s"), ["decode_b", "decode_c"])
        self.assertEqual(count_unverified.unverified(names, digests, verified, "t"), names)
        verified["decode_a"]["ptx"] = "2"
        self.assertEqual(count_unverified.unverified(["decode_a"], digests, verified, "s"), ["decode_a"])

    def test_without_digests_none_is_verified(self):
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as printed:
            count_unverified.main([str(pathlib.Path(folder) / "none.json")])
        self.assertRegex(printed.getvalue(), r"^kernels not GPU-verified: \d+ \(no digests of this build\)$")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The mutation runner must tell a caught change from one that survives, and always restore the file."""

import io
import json
import pathlib
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/scripts"))

import list_ctest
import mutate


def entry(**changes):
    base = {
        "name": "n", "covers": "c", "file": "a.txt", "find": "one", "replace": "two",
        "build": ["t"], "test": "grep -q one a.txt",
    }
    return {**base, **changes}


class Tree(mutate.Tree):
    """A tree whose build succeeds unless the file says otherwise."""

    def build(self, targets):
        broken = "broken" in (self.folder / "a.txt").read_text()
        return (1, "compile error") if broken else (0, "")


class Runner(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "a.txt").write_text("one line\n")
        self.tree = Tree(self.folder, 1)

    def outcome(self, mutation):
        with redirect_stdout(io.StringIO()):
            outcome = mutate.try_mutation(self.tree, mutation)
        self.assertEqual((self.folder / "a.txt").read_text(), "one line\n")
        return outcome

    def test_outcomes(self):
        self.assertEqual(self.outcome(entry()), "caught")
        self.assertEqual(self.outcome(entry(test="true")), "SURVIVED")
        self.assertEqual(self.outcome(entry(replace="broken")), "DOES NOT BUILD")
        self.assertEqual(self.outcome(entry(find="three")), "DOES NOT APPLY")

    def test_find_must_be_unique(self):
        with self.assertRaisesRegex(ValueError, "got 2 times"):
            mutate.mutated("one one", entry())

    def test_list_is_checked(self):
        with self.assertRaisesRegex(ValueError, "is taken"):
            mutate.read_list(json.dumps([entry(), entry()]))
        with self.assertRaisesRegex(ValueError, "changes nothing"):
            mutate.read_list(json.dumps([entry(replace="one")]))
        with self.assertRaisesRegex(ValueError, "expected the fields"):
            mutate.read_list(json.dumps([{"name": "n"}]))

    def test_every_entry_of_the_list_applies_today(self):
        mutations = mutate.read_list((ROOT / mutate.LIST).read_text())
        self.assertTrue(mutations)
        for mutation in mutations:
            with self.subTest(mutation["name"]):
                mutate.mutated((ROOT / mutation["file"]).read_text(), mutation)


class ListCTest(unittest.TestCase):
    def test_kinds(self):
        text = json.dumps({"tests": [
            {"name": "a", "command": ["/b/test-bin/a"]},
            {"name": "b", "command": ["/bin/sh", "x"]},
            {"name": "c", "command": ["/b/test-bin/c", "--flag"]},
            {"name": "d"},
        ]})
        kinds = [kind for kind, _, _ in list_ctest.listed(text)]
        self.assertEqual(kinds, ["gtest", "command", "command", "command"])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The mutation runner must tell a caught change from one that survives, and always restore the file."""

import io
import json
import pathlib
import re
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
        "name": "n", "covers": "c", "subjects": [], "file": "a.txt", "find": "one", "replace": "two",
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


def sources(*patterns):
    """Text of all files that match, one after another."""
    return "\n".join(path.read_text() for pattern in patterns for path in sorted(ROOT.glob(pattern)))


def declared_ops():
    """Every op of the dialect; of the tile ops those that have a verifier or a pattern of some target."""
    declared = re.findall(r'^def KVQ_(\w+Op) : \w+<"([\w.]+)"', sources("dialect/*.td"), re.MULTILINE)
    served = set(re.findall(r"[CG]puPattern<(\w+Op)>", sources("codegen/conversion/*/*.cpp")))
    verified = set(re.findall(r"(\w+Op)::verify\(\)", sources("dialect/*.cpp")))
    return {"kvq." + name for op, name in declared if not name.startswith("tile.") or op in served | verified}


def declared_passes():
    """Every pass that a lit test runs: without one, only a run on a device can notice a change."""
    text, tests = sources("passes/Passes.td", "codegen/Passes.td"), sources("lit/**/*.mlir", "lit/**/*.test")
    declared = re.findall(r'^def \w+ : Pass<"([\w-]+)"', text, re.MULTILINE)
    return {name for name in declared if f"--{name}" in tests}


def layout_fields():
    """Every field a record can have, named as in its manifest: "k.scale"."""
    kinds = re.search(r"enum class FieldKind[^{]*\{([^}]*)\}", sources("runtime/include/kvq/layout.h")).group(1)
    return {f"{side}.{kind.strip()}" for side in "kv" for kind in kinds.split(",")}


class Coverage(unittest.TestCase):
    """Something of every op, every pass and every field of the record is changed by a mutation."""

    def setUp(self):
        mutations = mutate.read_list((ROOT / mutate.LIST).read_text())
        self.named = {subject for mutation in mutations for subject in mutation["subjects"]}

    def test_everything_is_named(self):
        for declared, known in (
            (declared_ops(), "kvq.tile.dot"),
            (declared_passes(), "kvq-lower-tiles-cpu"),
            (layout_fields(), "v.outer"),
        ):
            self.assertIn(known, declared)
            self.assertEqual(sorted(declared - self.named), [])

    def test_no_name_is_unknown(self):
        self.assertEqual(sorted(self.named - declared_ops() - declared_passes() - layout_fields()), [])

    def test_every_op_is_found(self):
        """The pattern that finds ops misses none."""
        text = sources("dialect/*.td")
        ops = re.findall(r'^def KVQ_\w+Op : \w+<"', text, re.MULTILINE)
        self.assertEqual(len(re.findall(r"^def KVQ_\w+Op\b", text, re.MULTILINE)), len(ops))


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

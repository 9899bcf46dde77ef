#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutation runner: shows that the tests would notice a wrong line.

Each entry of tools/scripts/mutations.json names one change of one line (`file`, `find`, `replace`; `find` occurs
once), what it stands for (`covers`), the ops, passes and layout fields it changes (`subjects`, by name; may be
empty), the targets to build and the command that must then fail (`test`). The runner works on a clone of HEAD in its
own folder with its own incremental build, applies one change at a time and undoes it. Before the first change every
command must pass.

usage: tools/scripts/mutate.py [--list] [--only REGEX] [--folder DIR] [--jobs N] [--report FILE]
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from source_tree import ROOT

LIST = "tools/scripts/mutations.json"
FIELDS = {"name", "covers", "subjects", "file", "find", "replace", "build", "test"}


def read_list(text):
    """The mutations of the list; raises ValueError that names the entry which is not as expected."""
    mutations = json.loads(text)
    names = set()
    for position, mutation in enumerate(mutations):
        if set(mutation) != FIELDS:
            wrong = sorted(set(mutation) ^ FIELDS)
            raise ValueError(f"entry {position}: expected the fields {sorted(FIELDS)}, differs in {wrong}")
        if mutation["name"] in names:
            raise ValueError(f"entry {position}: the name '{mutation['name']}' is taken")
        if mutation["find"] == mutation["replace"]:
            raise ValueError(f"'{mutation['name']}' changes nothing")
        names.add(mutation["name"])
    return mutations


def mutated(text, mutation):
    """`text` with the change applied; raises ValueError unless `find` occurs exactly once."""
    count = text.count(mutation["find"])
    if count != 1:
        raise ValueError(f"'{mutation['name']}': expected 'find' once in {mutation['file']}, got {count} times")
    return text.replace(mutation["find"], mutation["replace"])


# A test program stops at its first failure: one is enough.
ENVIRONMENT = {**os.environ, "GTEST_THROW_ON_FAILURE": "1", "GTEST_FAIL_FAST": "1"}


class Tree:
    """The clone in which mutations are made."""

    def __init__(self, folder, jobs):
        self.folder, self.jobs = folder, jobs

    def run(self, command, timeout=900):
        """(exit status, output) of a shell command in the clone; 124 when it ran too long."""
        try:
            done = subprocess.run(
                command, shell=True, cwd=self.folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, timeout=timeout,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )
        except subprocess.TimeoutExpired:
            return 124, "ran out of time"
        return done.returncode, done.stdout

    def prepare(self):
        """Brings the clone to HEAD of the repository and configures its build."""
        head = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        ).stdout.strip()
        if not (self.folder / ".git").exists():
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "clone", "-q", str(ROOT), str(self.folder)], check=True)
        git = ["git", "-C", str(self.folder)]
        subprocess.run([*git, "fetch", "-q", str(ROOT), head], check=True)
        subprocess.run([*git, "checkout", "-q", "--force", "--detach", head], check=True)
        status, output = self.run("cmake --preset dev")
        if status:
            raise SystemExit(f"configure failed:\n{output[-3000:]}")

    def build(self, targets):
        return self.run(f"cmake --build build -j {self.jobs} --target {' '.join(targets)}")


def try_mutation(tree, mutation):
    """One of 'caught', 'SURVIVED', 'DOES NOT BUILD', 'DOES NOT APPLY' for the mutation; restores the file."""
    path = tree.folder / mutation["file"]
    original = path.read_text(encoding="utf-8")
    try:
        changed = mutated(original, mutation)
    except ValueError as error:
        print(f"    {error}")
        return "DOES NOT APPLY"
    try:
        path.write_text(changed, encoding="utf-8")
        status, output = tree.build(mutation["build"])
        if status:
            print("    " + output[-600:].replace("\n", "\n    "))
            return "DOES NOT BUILD"
        status, output = tree.run(mutation["test"])
        return "caught" if status else "SURVIVED"
    finally:
        path.write_text(original, encoding="utf-8")


def table(rows):
    """Markdown table of (name, covers, outcome, test)."""
    lines = ["| mutation | stands for | outcome | caught by |", "| --- | --- | --- | --- |"]
    for mutation, outcome in rows:
        test = mutation["test"] if outcome == "caught" else "-"
        lines.append(f"| {mutation['name']} | {mutation['covers']} | {outcome} | `{test}` |")
    return "\n".join(lines)


def baseline(tree, mutations):
    """Builds everything the mutations need and runs each of their commands once; all must pass."""
    print("building the unchanged tree", flush=True)
    targets = sorted({target for mutation in mutations for target in mutation["build"]})
    status, output = tree.build(targets)
    if status:
        raise SystemExit(f"the unchanged tree does not build:\n{output[-3000:]}")
    for test in sorted({mutation["test"] for mutation in mutations}):
        status, output = tree.run(test)
        if status:
            raise SystemExit(f"'{test}' fails on the unchanged tree:\n{output[-3000:]}")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the mutations and stop")
    parser.add_argument("--only", default="", metavar="REGEX", help="names to run")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/mutation")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--report", type=pathlib.Path, help="write the table here too")
    options = parser.parse_args(arguments)

    mutations = read_list((ROOT / LIST).read_text(encoding="utf-8"))
    mutations = [mutation for mutation in mutations if re.search(options.only, mutation["name"])]
    if options.list or not mutations:
        print("\n".join(f"{mutation['name']}: {mutation['covers']}" for mutation in mutations))
        return 0 if mutations else 2
    tree = Tree(options.folder.resolve(), options.jobs)
    tree.prepare()
    baseline(tree, mutations)
    rows = []
    for number, mutation in enumerate(mutations, 1):
        started = time.monotonic()
        outcome = try_mutation(tree, mutation)
        rows.append((mutation, outcome))
        seconds = time.monotonic() - started
        print(f"[{number}/{len(mutations)}] {mutation['name']}: {outcome} ({seconds:.0f} s)", flush=True)
    print(table(rows))
    if options.report:
        options.report.write_text(table(rows) + "\n", encoding="utf-8")
    missed = sum(outcome != "caught" for _, outcome in rows)
    print(f"{len(rows) - missed} of {len(rows)} mutations caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

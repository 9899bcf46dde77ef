# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the checks share: the list of tracked files and the root of the repository."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tracked_files(root=ROOT):
    """Tracked files that exist, as sorted posix paths relative to `root`."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z"], check=True, capture_output=True, text=True
    ).stdout.split("\0")
    return sorted(path for path in listed if path and (root / path).is_file())


def report(name, problems, checked):
    """Prints `problems`, one a line, and a closing line; returns the exit status."""
    for problem in problems:
        print(problem)
    print(f"{name}: {checked} files, {len(problems)} problem{'' if len(problems) == 1 else 's'}")
    return 1 if problems else 0

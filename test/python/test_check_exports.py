# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_exports.py must see a function too many, one too few and a library too many."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/scripts"))

import check_exports

HEADER = """
KVQ_API const char *kvq_name(int x);
KVQ_API kvq_status kvq_open(const char *path,
                            void **library);
typedef void (*kvq_item_fn)(void *task);
"""
SYMBOL = "  7: 0000000000001139  11 FUNC  {bind} DEFAULT  {section} {name}\n"
NEEDED = " 0x0000000000000001 (NEEDED)  Shared library: [{}]\n"


def symbols(*names):
    text = SYMBOL.format(bind="GLOBAL", section="UND", name="memcpy@GLIBC_2.14")
    return text + "".join(SYMBOL.format(bind="GLOBAL", section="12", name=name) for name in names)


class Exports(unittest.TestCase):
    def problems(self, names=("kvq_name", "kvq_open"), extra="", needed=("libc.so.6", "libstdc++.so.6")):
        return check_exports.problems(HEADER, symbols(*names) + extra, "".join(map(NEEDED.format, needed)))

    def test_clean(self):
        self.assertEqual(self.problems(), [])

    def test_one_function_too_few(self):
        self.assertEqual(self.problems(names=["kvq_name"]), ["kvq_open: declared in the header, not exported"])

    def test_one_symbol_too_many(self):
        for bind in ("GLOBAL", "WEAK"):
            extra = SYMBOL.format(bind=bind, section="12", name="_ZN3kvq6sha256EPKvm")
            self.assertEqual(len(self.problems(extra=extra)), 1)

    def test_a_type_is_no_function(self):
        self.assertEqual(len(self.problems(names=["kvq_name", "kvq_open", "kvq_item_fn"])), 1)

    def test_a_library_too_many(self):
        for name in ("libcuda.so.1", "libLLVM.so.22", "libc.so.6.evil", "libabsl.so"):
            self.assertEqual(self.problems(needed=[name]), [f"{name}: a library that the runtime must not need"])

    def test_a_header_without_functions(self):
        self.assertEqual(check_exports.problems("", "", ""), ["the header declares no function"])


if __name__ == "__main__":
    unittest.main()

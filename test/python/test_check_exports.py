# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_exports.py must see a function too many, one too few and a library too many."""

import pathlib
import subprocess
import sys
import tempfile
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
    def problems(self, names=("kvq_name", "kvq_open"), extra="", needed=("libc.so.6", "ld-linux-x86-64.so.2")):
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
        for name in ("libcuda.so.1", "libLLVM.so.22", "libstdc++.so.6", "libc.so.6.evil", "libabsl.so"):
            self.assertEqual(self.problems(needed=[name]), [f"{name}: a library that the runtime must not need"])

    def test_a_header_without_functions(self):
        self.assertEqual(check_exports.problems("", "", ""), ["the header declares no function"])

    def test_a_type_of_another_world(self):
        for line, name in (("KVQ_API void kvq_x(CUstream s);", "CUstream"), ("#include <string>", "string"),
                           ("typedef std::vector<int> v;", "std"), ("struct LLVMOpaque *p;", "LLVMOpaque")):
            self.assertEqual(check_exports.foreign(HEADER + line), [name])

    def test_comments_may_name_it(self):
        self.assertEqual(check_exports.foreign("/* a CUstream,\n a std::string */ // LLVM\nint KVQ_TARGET_CUDA;"), [])

    def test_a_library_that_grew(self):
        with tempfile.TemporaryDirectory() as folder:
            library, header = pathlib.Path(folder, "x.so"), pathlib.Path(folder, "x.h")
            header.write_text("#define KVQ_API\nKVQ_API int kvq_x(void);\n")
            subprocess.run(["cc", "-shared", "-nostdlib", "-fPIC", "-x", "c", "-", "-o", library], check=True,
                           input=b"int kvq_x(void) { return 1; }")
            for limit, status in ((1, 1), (1 << 20, 0)):
                command = [sys.executable, check_exports.__file__, "--max-bytes", str(limit), library, header]
                run = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual(run.returncode, status, run.stdout + run.stderr)
                self.assertEqual("expected at most 1 bytes" in run.stdout, status == 1)


if __name__ == "__main__":
    unittest.main()

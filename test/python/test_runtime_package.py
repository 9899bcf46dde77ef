# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python package as a whole: its view of the C interface, a driver without a GPU, other ways to the same bits."""

import ctypes
import pathlib
import subprocess
import sys
import tempfile
import unittest

from runtime_cases import BIN, ROOT, WithLibrary, kvq
from kvq_runtime import _abi

sys.path.insert(0, str(ROOT / "tools/scripts"))
import generate_python_abi  # noqa: E402

TRACE = ROOT / "test/data/smollm2-135m.trace.safetensors"


class Abi(unittest.TestCase):
    def test_is_generated_from_the_header(self):
        self.assertEqual(generate_python_abi.OUTPUT.read_text(),
                         generate_python_abi.generate(generate_python_abi.HEADER.read_text()),
                         "run tools/scripts/generate_python_abi.py")

    def test_structs_lie_in_memory_as_those_of_c(self):
        structs = [s for s in vars(_abi).values() if isinstance(s, type) and issubclass(s, _abi.Struct)]
        structs.remove(_abi.Struct)
        self.assertGreater(len(structs), 15)
        lines, expected = [], []
        for struct in structs:
            lines.append(f'printf("%zu\\n", sizeof({struct.__name__}));')
            expected.append(ctypes.sizeof(struct))
            for member, _ in struct._fields_:
                lines.append(f'printf("%zu\\n", offsetof({struct.__name__}, {member}));')
                expected.append(getattr(struct, member).offset)
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "offsets.c"), pathlib.Path(folder, "offsets")
            source.write_text("#include <kvq/runtime.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "}\n")
            subprocess.run(["cc", "-I", ROOT / "runtime/include", source, "-o", program], check=True)
            got = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual([int(number) for number in got], expected)

    def test_numbers_have_their_names(self):
        self.assertEqual(kvq.Status.OTHER_FORMAT, 9)
        self.assertEqual(kvq.ReasonCode.KERNEL, 12)
        self.assertEqual(kvq.MAX_Q_LENGTH, 16)


class OnADriverWithoutAGpu(WithLibrary):
    """test/gpu/fake_driver.c logs what is launched; its decode writes zeros."""

    targets = "sm_90a"

    def setUp(self):
        """The library opens on that driver alone, in another process."""

    def test_calls_launch_kernels(self):
        log = pathlib.Path(self.folder.name, "launches")
        done = subprocess.run([sys.executable, "calls_on_a_device.py", self.path], capture_output=True, text=True,
                              cwd=ROOT / "test/python", env={"KVQ_FAKE_DRIVER_LOG": str(log),
                                                             "LD_LIBRARY_PATH": str(ROOT / "build/test/gpu/fake")})
        self.assertEqual(done.stdout, "k: expected CUDA memory, got a tensor of DLPack device (1, 0)\n", done.stderr)
        self.assertEqual([name.rstrip("0123456789") for name in log.read_text().split()],
                         ["kvq_append", *["kvq_plan", "kvq_prepare", "kvq_decode"] * 2])


class Example(WithLibrary):
    name = "int2"

    def test_prints_what_the_guide_says(self):
        done = subprocess.run([sys.executable, ROOT / "docs/examples/python/attend.py", self.path], capture_output=True,
                              text=True, env={"PYTHONPATH": str(ROOT / "build/python")})
        printed = (done.stdout + done.stderr).splitlines()[-1]
        self.assertEqual(printed, "attention over 100 tokens: -1.00 1.00 1.00 -1.00 ...")
        self.assertIn(printed, (ROOT / "docs/python.md").read_text())


class SameBits(WithLibrary):
    def test_by_kvq_run_a_c_program_and_python(self):
        program = pathlib.Path(self.folder.name, "attend_rows")
        subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I", ROOT / "runtime/include",
                        ROOT / "docs/examples/c/attend_rows.c", "-L", ROOT / "build/lib", "-lkvq",
                        f"-Wl,-rpath,{ROOT / 'build/lib'}", "-o", program], check=True)
        done = subprocess.run([sys.executable, ROOT / "tools/scripts/same_bits.py", self.path, "--trace", TRACE,
                               "--kvq-run", BIN / "kvq-run", "--attend-rows", program], capture_output=True, text=True,
                              env={"PYTHONPATH": str(ROOT / "build/python"), "PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("the same by kvq-run, C, Python"), 6, done.stdout)


if __name__ == "__main__":
    unittest.main()

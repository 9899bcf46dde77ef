# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The emulated warp does what the PTX ISA says, and refuses what it does not know."""

import pathlib
import struct
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/scripts"))

import ptx_warp

HEAD = ".visible .func f(\n\t.param .b64 f_param_0\n)\n{\n\t.reg .b32 \t%r<9>;\n\tld.param.b64 \t%rd1, [f_param_0];\n"


def run(body, memory=None):
    """Registers after `body`; %rd2 is the lane's word of the memory."""
    memory = bytearray(4096) if memory is None else memory
    body = "mov.u32 \t%r1, %tid.x;\n\tmul.wide.u32 \t%rd3, %r1, 4;\n\tadd.s64 \t%rd2, %rd1, %rd3;\n\t" + body
    warp = ptx_warp.Warp(HEAD + "\t" + body + "\n\tret;\n}\n", "f", memory)
    warp.run(0)
    return warp.registers


class Warp(unittest.TestCase):
    def test_integers_and_reals(self):
        registers = run(
            "add.s32 \t%r2, %r1, -1;\n\tmin.s32 \t%r3, %r2, 0;\n\tprmt.b32 %r4, 0x44332211, %r1, 0x4301;\n"
            "\tcvt.rn.f32.s32 \t%r5, %r2;\n\tfma.rn.f32 \t%r6, %r5, 0f40000000, 0f3F800000;"
        )
        self.assertEqual(registers["%r3"][:2], [0xFFFFFFFF, 0])
        self.assertEqual(registers["%r4"][5], 0x05441122)
        self.assertEqual(ptx_warp.float_of(registers["%r6"][0]), -1)

    def test_pairs_round_each_half(self):
        # 1 + 2^-9 is halfway to the next bf16: to even.
        registers = run("cvt.rn.bf16x2.f32 %r2, 0f40000000, 0f3F804000;\n\tadd.rn.bf16x2 %r3, %r2, %r2;")
        self.assertEqual(registers["%r2"][0], 0x40003F80)
        self.assertEqual(registers["%r3"][0], 0x40804000)

    def test_memory_and_branches(self):
        memory = bytearray(4096)
        run(
            "setp.lt.s32 \t%p1, %r1, 4;\n\t@%p1 bra \t$L__BB0_1;\n\tst.b32 \t[%rd2+128], %r1;\n$L__BB0_1:\n"
            "\tst.b32 \t[%rd2], %r1;", memory)  # fmt: skip
        self.assertEqual(struct.unpack_from("<8I", memory, 0), tuple(range(8)))
        self.assertEqual(struct.unpack_from("<8I", memory, 128), (0, 0, 0, 0, 4, 5, 6, 7))

    def test_exchange(self):
        registers = run(
            "shfl.sync.bfly.b32 \t%r2, %r1, 4, 31, -1;\n\tsetp.eq.s32 \t%p1, %r1, 3;\n"
            "\tvote.sync.ballot.b32 \t%r3, %p1, -1;\n\tmovmatrix.sync.aligned.m8n8.trans.b16 %r4, %r1;"
        )
        self.assertEqual(registers["%r2"][:8], [4, 5, 6, 7, 0, 1, 2, 3])
        self.assertEqual(set(registers["%r3"]), {8})
        # Row i of the matrix has 4 i + j in its even columns 2 j; columns 0 and 2 become rows.
        self.assertEqual(registers["%r4"][:4], [0 | 4 << 16, 8 | 12 << 16, 16 | 20 << 16, 24 | 28 << 16])
        self.assertEqual(registers["%r4"][8:10], [1 | 5 << 16, 9 | 13 << 16])

    def test_matrix_products(self):
        """A is the lane number in column 2 t of row g: only these k count."""
        registers = run(
            "cvt.rn.f32.s32 \t%r2, %r1;\n\tcvt.rn.f16x2.f32 %r3, 0f00000000, %r2;\n\tmov.b32 \t%r4, 0;\n"
            "\tmov.b32 \t%r5, 0x3C00;\n"
            "\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r6, %r7, %r8, %r9}, {%r3, %r4, %r4, %r4}, "
            "{%r5, %r4}, {%r4, %r4, %r2, %r4};"
        )
        sums = [ptx_warp.float_of(registers["%r6"][4 * g]) for g in range(8)]
        self.assertEqual(sums, [16 * g + 6 for g in range(8)])
        self.assertEqual(ptx_warp.float_of(registers["%r8"][5]), 5)
        registers = run(
            "mov.b32 \t%r4, 0x02FF;\n\tmov.b32 \t%r5, 0x0103;\n\tmov.b32 \t%r6, 0;\n"
            "\tmma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%r6, %r7, %r8, %r9}, {%r4, %r6, %r6, %r6}, "
            "{%r5, %r6}, {%r6, %r6, %r1, %r6};"
        )
        self.assertEqual(ptx_warp.signed(registers["%r6"][0], 32), 4 * (-3 + 2))
        self.assertEqual(registers["%r8"][7], 7)

    def test_faults(self):
        for message, body in (
            ("unknown: popc.b32", "popc.b32 \t%r2, %r1;"),
            ("ld.b32 at 0x1", "ld.b32 \t%r2, [%rd1+1];"),
            ("ld.b32 at 0x1000", "ld.b32 \t%r2, [%rd1+4096];"),
            ("ld.v2.b32 at 0x4", "ld.v2.b32 \t{%r2, %r3}, [%rd1+4];"),
            ("bar.warp.sync without some lanes",
             "setp.lt.s32 \t%p1, %r1, 4;\n\t@%p1 bra \t$L__BB0_1;\n\tbar.warp.sync \t-1;\n$L__BB0_1:"),
        ):  # fmt: skip
            with self.subTest(message), self.assertRaisesRegex(ptx_warp.Fault, message):
                run(body)


if __name__ == "__main__":
    unittest.main()

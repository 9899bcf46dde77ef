# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times of the prototype and of kvq-bench are read, medians taken, and each stands beside the right other one."""

import io
import json
import pathlib
import stat
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/scripts"))

import bench_decode

# Lines as the prototype prints them.
PROTOTYPE = """\
error asym team 1 warp             3 x 2112   mode 0: rel 1.49e-04  worst row 3.33e-04  lse 1.13e-05 
read ceiling 4503 GB/s
time  asym 16 CTAs, mailboxes      1 x 131072    23.40 us   3226 GB/s   71.6 % of the read ceiling
time  asym team 2 warps            64 x 32768    278.60 us   4336 GB/s   96.3 % of the read ceiling
time  asym + BF16 window           32 x 7872      12.34 us   4083 GB/s   90.7 % of the read ceiling
time  asym 16 CTAs, mailboxes      1 x 131072    23.60 us   3226 GB/s   71.6 % of the read ceiling
time  asym team 2 warps            64 x 32768    278.20 us   4336 GB/s   96.3 % of the read ceiling
times with data mode 0
time  asym team 2 warps            64 x 32768    111.00 us   4336 GB/s   96.3 % of the read ceiling
time  asym 1 warp, no renewal      64 x 32768    110.00 us   4336 GB/s   96.3 % of the read ceiling
time  sym team 2 warps             64 x 32768    263.40 us   4332 GB/s   96.2 % of the read ceiling
"""


def bench_row(us, mode, kernel="int2-g128", case="64x32768", like_bf16=True):
    return {
        "kernel": kernel, "kernel_full": "kernel_of_" + kernel, "case": case, "mode": mode,
        "us": us, "gbs": 1208e3 / us, "share": 0.5,
        "like_bf16": like_bf16,
    }


class BenchDecode(unittest.TestCase):
    def test_prototype_output(self):
        ceiling, times = bench_decode.parse_prototype(PROTOTYPE)
        self.assertEqual(ceiling, 4503)
        self.assertEqual(times, {
            ("asym 16 CTAs, mailboxes", "1x131072"): [23.4, 23.6],
            ("asym team 2 warps", "64x32768"): [278.6, 278.2],
            ("sym team 2 warps", "64x32768"): [263.4],
        })

    def test_fastest_variant_counts(self):
        slow = "time  asym team 1 warp             64 x 32768    300.00 us   1 GB/s   1 % of the read ceiling\n"
        best = bench_decode.prototype_times([PROTOTYPE, slow, PROTOTYPE])
        self.assertAlmostEqual(best["asym", "64x32768"], 278.4)
        self.assertAlmostEqual(best["sym", "64x32768"], 263.4)

    def test_rows(self):
        documents = [
            {"rows": [bench_row(us, "decode"), bench_row(us + 10, "both"), bench_row(us - 9, "load")]}
            for us in (300, 302, 400)
        ]
        documents[0]["rows"] += [bench_row(20, "decode", "int4-g128"), bench_row(21, "both", "int4-g128")]
        rows = bench_decode.merge_rows(documents, {("asym", "64x32768"): 271.8}, 4500)
        self.assertEqual(rows[0], {
            "kernel": "int2-g128", "kernel_full": "kernel_of_int2-g128", "case": "64x32768", "us": 302,
            "us_with_prepare": 312, "load_only_us": 293, "share": round(1208e3 / 302 / 4500, 4), "prototype_us": 271.8,
            "speed_ratio": 0.9, "bf16_us": None, "bf16_ratio": None,
        })
        self.assertEqual(rows[1]["kernel"], "int4-g128")
        self.assertEqual((rows[1]["prototype_us"], rows[1]["speed_ratio"]), (None, None))

    def test_baseline_stands_beside_kernels_of_its_shape(self):
        documents = [
            {"rows": [
                bench_row(200, "decode"), bench_row(210, "both"),
                bench_row(100, "decode", "int2-d64", like_bf16=False),
                bench_row(110, "both", "int2-d64", like_bf16=False),
                bench_row(20, "decode", case="1x64"), bench_row(21, "both", case="1x64"),
                bench_row(us, "decode", "bf16")]}
            for us in (1900, 1920, 2000)
        ]
        rows = bench_decode.merge_rows(documents, {}, 4500)
        self.assertEqual([row["kernel"] for row in rows], ["int2-g128", "int2-d64", "int2-g128"])
        self.assertEqual([row["bf16_us"] for row in rows], [1920, None, None])
        self.assertEqual([row["bf16_ratio"] for row in rows], [9.6, None, None])
        text = "\n".join(bench_decode.table({"card": "card", "ceiling_gbs": 4500, "rows": rows}))
        self.assertIn("1920.00", text)
        self.assertIn("9.60", text)

    def test_both_modes_are_needed(self):
        with self.assertRaisesRegex(ValueError, "without the preparation"):
            bench_decode.merge_rows([{"rows": [bench_row(1, "both")]}], {}, 4500)

    def test_programs_run_alternately(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            rows = [bench_row(300, "decode"), bench_row(310, "both")]
            document = {"card": "card", "ceiling_gbs": 4500.0, "rows": rows}
            (place / "answer.json").write_text(json.dumps(document))
            (place / "prototype.txt").write_text(PROTOTYPE)
            self.script(place / "bench", f'echo b "$@" >> {place}/log; cp {place}/answer.json "$3"')
            self.script(place / "prototype", f"echo p >> {place}/log; cat {place}/prototype.txt")
            output = place / "results/decode.json"
            with redirect_stdout(io.StringIO()) as text:
                status = bench_decode.main([
                    "--bench", str(place / "bench"), "--prototype", str(place / "prototype"), "--repeat", "2",
                    "--lib", "int2-g128=file", "-o", str(output), "--commit", "abc", "--", "--rounds", "1"])
            self.assertEqual(status, 0)
            log = (place / "log").read_text().splitlines()
            self.assertEqual([line[0] for line in log], ["b", "p", "b", "p"])
            self.assertIn("--lib int2-g128=file --rounds 1", log[0])
            result = json.loads(output.read_text())
            self.assertEqual((result["card"], result["commit"], result["ceiling_gbs"]), ("card", "abc", 4500))
            self.assertEqual(result["prototype_ceiling_gbs"], 4503)
            self.assertEqual(result["rows"][0]["speed_ratio"], round(278.4 / 300, 3))
            self.assertIn("0.93", text.getvalue())

    @staticmethod
    def script(path, body):
        path.write_text("#!/bin/sh\n" + body + "\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times decode with kvq-bench and, in turn with it, the hand-written prototype; writes one result file.

usage: tools/scripts/bench_decode.py --bench build/bin/kvq-bench --lib int2-g128=FILE.kvqlib ...
           [--prototype BINARY] [--repeat N] [--commit HASH] [-o docs/results/decode-h200.json] [-- OPTIONS]
What stands behind `--` goes to kvq-bench, --load-only and --bf16 for instance. The two programs run alternately, N times
each; a time is the median of its runs, the prototype's that of its fastest variant in a case. `us` is decode without the
preparation of queries, as the prototype is timed; `us_with_prepare` is what a caller of the runtime waits for; `load_only_us` reads the
same records and computes nothing; `bf16_us` is our kernel over a BF16 cache, in a case of the same heads and channels
(`--bf16` behind `--`). `speed_ratio` = prototype_us / us, `bf16_ratio` = bf16_us / us.
Both read pages and the page table before the kernel in front of them has ended. In a step of kvq that kernel is its own
prepare, which lets decode begin only after what was launched before it, an append for instance, has ended.
"""

import argparse
import collections
import datetime
import json
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

from source_tree import ROOT

# Short name of a kernel -> how the names of its variants in the prototype begin.
PROTOTYPE_FAMILY = {"int2-g128": "asym", "int2-g128-sym": "sym"}
# The kernel of kvq-bench --bf16.
BASELINE = "bf16"
# Another workload, or arithmetic that is known to be too coarse.
NOT_COMPARABLE = ("BF16 window", "no renewal")
PROTOTYPE_TIME = re.compile(r"^time\s+(\S.*?)\s+(\d+) x (\d+)\s+([\d.]+) us\b")
PROTOTYPE_CEILING = re.compile(r"^read ceiling ([\d.]+) GB/s")


def parse_prototype(text):
    """(read ceiling in GB/s or None, {(variant, case): [us, ...]}) of the prototype's output."""
    ceiling, times = None, collections.defaultdict(list)
    repeated = False
    for line in text.splitlines():
        if match := PROTOTYPE_CEILING.match(line):
            ceiling = float(match[1])
        # Behind this line some variants run again, on other data.
        repeated = repeated or line.startswith("times with data mode")
        match = PROTOTYPE_TIME.match(line)
        if not match or any(part in match[1] for part in NOT_COMPARABLE):
            continue
        if not repeated or match[1].startswith("sym"):
            times[match[1], f"{match[2]}x{match[3]}"].append(float(match[4]))
    return ceiling, dict(times)


def prototype_times(texts):
    """{(family, case): us}: the fastest variant of each family, by the median over all outputs."""
    times = collections.defaultdict(list)
    for text in texts:
        for key, values in parse_prototype(text)[1].items():
            times[key] += values
    best = {}
    for (variant, case), values in times.items():
        family = variant.split()[0]
        time = statistics.median(values)
        best[family, case] = min(time, best.get((family, case), time))
    return best


def baseline_times(documents):
    """{case: us} of the decode over a BF16 cache."""
    times = collections.defaultdict(list)
    for document in documents:
        for row in document["rows"]:
            if row["kernel"] == BASELINE:
                times[row["case"]].append(row["us"])
    return {case: statistics.median(values) for case, values in times.items()}


def merge_rows(documents, prototype, ceiling):
    """Rows of the result from the documents of several runs of kvq-bench, in the order of the first."""
    times, bytes_read, names, likes = collections.defaultdict(list), {}, {}, set()
    baseline = baseline_times(documents)
    for document in documents:
        for row in document["rows"]:
            if row["kernel"] == BASELINE:
                continue
            key = row["kernel"], row["case"]
            if row["like_bf16"]:
                likes.add(key)
            times[key, row["mode"]].append(row["us"])
            bytes_read[key] = row["gbs"] * row["us"]
            names[key] = row["kernel_full"]
    rows = []
    for key, full in names.items():
        kernel, case = key
        if not times[key, "decode"]:
            raise ValueError(f"{kernel} {case}: no time without the preparation of queries; give --without-prepare")
        us = statistics.median(times[key, "decode"])
        beside = prototype.get((PROTOTYPE_FAMILY.get(kernel), case))
        bf16 = baseline.get(case) if key in likes else None
        rows.append({
            "kernel": kernel,
            "kernel_full": full,
            "case": case,
            "us": round(us, 2),
            "us_with_prepare": round(statistics.median(times[key, "both"]), 2),
            "load_only_us": round(statistics.median(times[key, "load"]), 2) if times[key, "load"] else None,
            "share": round(bytes_read[key] / us / ceiling, 4),
            "prototype_us": beside,
            "speed_ratio": round(beside / us, 3) if beside else None,
            "bf16_us": round(bf16, 2) if bf16 else None,
            "bf16_ratio": round(bf16 / us, 2) if bf16 else None,
        })
    return rows


def table(document):
    """Lines of a table for people."""
    lines = [f"{document['card']}, read ceiling {document['ceiling_gbs']:.0f} GB/s"]
    lines.append(f"{'kernel':<16}{'case':<12}{'us':>9}{'with prep':>10}{'share':>8}{'prototype':>11}{'ratio':>7}"
                 f"{'bf16':>9}{'ratio':>7}")
    for row in document["rows"]:
        beside = f"{'-':>11}{'-':>7}"
        if row["prototype_us"]:
            beside = f"{row['prototype_us']:>11.2f}{row['speed_ratio']:>7.2f}"
        baseline = f"{row['bf16_us']:>9.2f}{row['bf16_ratio']:>7.2f}" if row["bf16_us"] else f"{'-':>9}{'-':>7}"
        lines.append(
            f"{row['kernel']:<16}{row['case']:<12}{row['us']:>9.2f}{row['us_with_prepare']:>10.2f}"
            f"{100 * row['share']:>7.1f}%{beside}{baseline}"
        )
    return lines


def run(command):
    """Standard output of a command; its errors go where ours go."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def run_bench(bench, libraries, options):
    """One run of kvq-bench, as its JSON document."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bench.json"
        command = [bench, "--without-prepare", "--json", str(path)]
        for library in libraries:
            command += ["--lib", library]
        print(run(command + options), end="", flush=True)
        return json.loads(path.read_text(encoding="utf-8"))


def commit_of(root):
    """Hash of the checkout, or "unknown" outside one."""
    result = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True)
    return result.stdout.strip() or "unknown"


def parse_arguments(arguments):
    rest = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, rest = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="the program kvq-bench")
    parser.add_argument("--lib", action="append", required=True, metavar="NAME=FILE", help="short name and library")
    parser.add_argument("--prototype", help="the prototype's program; without it nothing stands beside our times")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each program (default: 3)")
    parser.add_argument("--commit", help="of the sources (default: that of the checkout)")
    parser.add_argument("-o", "--output", default="docs/results/decode-h200.json")
    options = parser.parse_args(arguments)
    options.rest = rest
    return options


def main(arguments):
    options = parse_arguments(arguments)
    documents, outputs = [], []
    for _ in range(max(1, options.repeat)):
        documents.append(run_bench(options.bench, options.lib, options.rest))
        if options.prototype:
            outputs.append(run([options.prototype]))
    ceiling = max(document["ceiling_gbs"] for document in documents)
    ceilings = [value for value in (parse_prototype(text)[0] for text in outputs) if value]
    result = {
        "card": documents[0]["card"],
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": options.commit or commit_of(ROOT),
        "command": shlex.join(["tools/scripts/bench_decode.py"] + arguments),
        "ceiling_gbs": round(ceiling, 1),
        "prototype_ceiling_gbs": max(ceilings) if ceilings else None,
        "rows": merge_rows(documents, prototype_times(outputs), ceiling),
    }
    output = pathlib.Path(options.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(result)))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        sys.exit(f"bench_decode.py: {error}")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints one table of several reports of `kvq-run --json`.

usage: tools/scripts/demo_table.py REPORT...
The name of a row is the file's name without its suffix.
"""

import json
import pathlib
import sys

COLUMNS = (
    ("bits/element", "bits_per_element", "{:.3f}"),
    ("method error", "method_error", "{:.3f}"),
    ("kernel error", "kernel_error", "{:.2e}"),
    ("of it rounding", "rounding_error", "{:.2e}"),
    ("error after W_O", "projected_total_error", "{:.3f}"),
)
LEGEND = """\
bits/element     bits of the cache per element of K and V; parameters and padding count
method error     exact attention over the dequantized cache, against exact attention over the original
kernel error     the compiled kernels, against exact attention over the dequantized cache
of it rounding   what rounding the output to its element type alone costs: no kernel is closer
error after W_O  the compiled kernels against the original, behind the model's output projection
Errors are relative l2 norms over all layers, heads and queries of the trace; references are float64."""


def table(reports):
    """Lines of a table of (name, document) pairs; raises KeyError or ValueError on another document."""
    rows = [["pipeline"] + [title for title, _, _ in COLUMNS]]
    for name, document in reports:
        rows.append([name] + [text.format(float(document["total"][key])) for _, key, text in COLUMNS])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells))
    lines.insert(1, "-" * len(lines[0]))
    return lines


def heading(document):
    """What the reports were measured on."""
    layers = ", ".join(str(layer["layer"]) for layer in document["layers"])
    return (
        f"{document['model']}, layers {layers}: {document['tokens']} tokens of '{document['text']}', "
        f"{document['queries']} queries a layer, pages of {document['page']} tokens"
    )


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    reports = []
    for argument in arguments:
        path = pathlib.Path(argument)
        try:
            reports.append((path.stem, json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError) as error:
            print(f"demo_table: '{path}' is no report of kvq-run: {error}", file=sys.stderr)
            return 1
    try:
        lines = table(reports)
        title = heading(reports[0][1])
    except (KeyError, TypeError, ValueError) as error:
        print(f"demo_table: a report lacks {error}", file=sys.stderr)
        return 1
    print("\n".join([title, "", *lines, "", LEGEND]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

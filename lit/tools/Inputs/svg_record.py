#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks a picture of a record against the record's text form, which it reads by the rule of the text form alone:
bit(token, channel) = 8 offset + walk(token) + walk(channel - first channel).

usage: kvq-inspect LIBRARY --json | svg_record.py PICTURE FORMAT
"""

import json
import re
import sys
import xml.etree.ElementTree as tree

ELEMENT = re.compile(r"bits? (\d+)(?:-(\d+))? token (\d+) channel (\d+)")


def walk(digits, index):
    place = 0
    for count, stride in digits:
        place += index % count * stride
        index //= count
    return place


def numbers(text):
    """The numbers of "0-3" or "5, 37"."""
    first, dash, last = text.partition("-")
    return range(int(first), int(last) + 1) if dash else [int(number) for number in text.split(", ")]


def stated(record):
    """Byte -> {(field, first bit in the byte, token, channel)}; of a parameter, -8 is its second byte's."""
    out = [set() for _ in range(record["stride"])]
    for field in record["fields"]:
        width = int(re.search(r"\d+$", field["type"]).group())
        first, end = field["channels"]
        for token in range(record["tokens"]):
            for channel in range(first, end):
                bit = 8 * field["offset"] + walk(field["token"], token) + walk(field["channel"], channel - first)
                for at in range(bit // 8, (bit + width - 1) // 8 + 1):
                    out[at].add((field["field"], bit - 8 * at, token, channel))
    return out


def drawn(title):
    field = title.split()[2]
    if ".code" in field:
        return {(field, int(e[0]), int(e[2]), int(e[3])) for e in ELEMENT.findall(title)}
    at = int(re.search(r"\(byte (\d+) of", title).group(1))
    tokens = numbers(re.search(r", tokens? ([\d, -]+?), channel", title).group(1))
    channels = numbers(re.search(r", channels? ([\d, -]+?), lane", title).group(1))
    return {(field, -8 * at, token, channel) for token in tokens for channel in channels}


def main():
    report = json.load(sys.stdin)
    record = report["formats"][int(sys.argv[2])]["record"]
    titles = [node.text for node in tree.parse(sys.argv[1]).iter("{http://www.w3.org/2000/svg}title")]
    expected = stated(record)
    if len(titles) != len(expected):
        sys.exit(f"expected {len(expected)} bytes, got {len(titles)}")
    for at, (title, elements) in enumerate(zip(titles, expected)):
        if not title.startswith(f"byte {at}: "):
            sys.exit(f"expected byte {at}, got '{title}'")
        got = set() if title.endswith(": padding") else drawn(title)
        if got != elements:
            sys.exit(f"'{title}': expected {sorted(elements)[:8]}")
    print(f"{len(titles)} bytes agree")


main()

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a small calibration file: a mean, a rotation and learned sinks for three layers, three KV heads, 32 channels.

usage: make_calibration.py OUT [FAULT]
FAULT: digest, nan, shape, dtype, layers, skew, no-metadata, no-digest, no-json
"""

import hashlib
import json
import struct
import sys

HEADS, DIM = 3, 32


def mean(layer):
    return [layer + head + channel / 64 for head in range(HEADS) for channel in range(DIM)]


def rotation(layer):
    """A cyclic shift of the channels, by another step in each layer and head."""
    entries = []
    for head in range(HEADS):
        for row in range(DIM):
            entries += [float(column == (row + layer + head + 1) % DIM) for column in range(DIM)]
    return entries


def make_tensors(fault):
    tensors = {}
    # Layer 2 comes first by number, last by name: neither that order nor its reverse is right.
    for index, layer in enumerate([2, 10, 11]):
        tensors[f"layers.{layer}.k.mean"] = ("F32", [HEADS, DIM], mean(index))
        tensors[f"layers.{layer}.k.rotation"] = ("F32", [HEADS, DIM, DIM], rotation(index))
        tensors[f"layers.{layer}.sinks"] = ("F32", [HEADS, 1], [1.0 + index + head / 4 for head in range(HEADS)])
    if fault == "nan":
        tensors["layers.10.k.mean"][2][37] = float("nan")
    if fault == "skew":
        tensors["layers.10.k.rotation"][2][DIM * DIM + 1] = 0.25
    if fault == "shape":
        tensors["layers.2.k.mean"] = ("F32", [DIM, HEADS], mean(0))
    if fault == "dtype":
        tensors["layers.2.k.mean"] = ("F64", [HEADS, DIM], mean(0))
    if fault == "layers":
        del tensors["layers.10.k.mean"]
    return tensors


def main(path, fault=""):
    tensors = make_tensors(fault)
    header, data = {}, b""
    for name in sorted(tensors):
        dtype, shape, values = tensors[name]
        piece = struct.pack(f"<{len(values)}{'d' if dtype == 'F64' else 'f'}", *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    digest = hashlib.sha256(data + b"x" * (fault == "digest")).hexdigest()
    document = json.dumps({} if fault == "no-digest" else {"version": 0, "sha256": digest})
    if fault != "no-metadata":
        header["__metadata__"] = {"kvq_calibration": "no" if fault == "no-json" else document}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


main(*sys.argv[1:])

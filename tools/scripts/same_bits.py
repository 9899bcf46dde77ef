#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a library on a trace in three ways, and holds that bytes of the cache, outputs and log-sum-exps are the same: by
kvq-run, by a C program (docs/examples/c/attend_rows.c), and in this process by the Python package, with PyTorch where
there is one, else with NumPy. Exit status 1 if they are not.

usage: tools/scripts/same_bits.py LIBRARY --trace TRACE --kvq-run FILE --attend-rows FILE [--target cpu|cuda]
The package is found on PYTHONPATH (build/python). The library has no windows, and rotates queries itself.
"""

import argparse
import hashlib
import importlib.util
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import kvq_runtime as kvq

NAMES = ("cache", "out", "lse")


def read_trace(path):
    """Layers of a trace in ascending order: a list of {"q" | "k" | "v": (shape, bytes)}."""
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    layers = {}
    for name, entry in header.items():
        if name == "__metadata__" or name.endswith(".wo"):
            continue
        _, layer, tensor = name.split(".")
        begin, end = entry["data_offsets"]
        layers.setdefault(int(layer), {})[tensor] = entry["shape"], body[begin:end]
    return [layers[index] for index in sorted(layers)]


class NumpyTensors:
    """Tensors in host memory; bf16 as the integers that hold its bits."""

    def __init__(self, target):
        if target != "cpu":
            raise SystemExit("same_bits.py: --target cuda needs PyTorch")
        self.numpy = importlib.import_module("numpy")

    def rows(self, shape, data):
        return self.numpy.frombuffer(bytearray(data), dtype=self.numpy.uint16).reshape(shape)

    def filled(self, shape, dtype):
        nbytes = math.prod(shape)
        memory = self.numpy.full(nbytes + kvq.RECORD_ALIGN, 255, self.numpy.uint8)
        return kvq.aligned(memory, nbytes).reshape(shape).view(dtype)

    def integers(self, values, dtype):
        return self.numpy.array(values, dtype)

    def repeated(self, row, count):
        return self.numpy.tile(row, (count, 1))

    @staticmethod
    def contents(tensor):
        return tensor.tobytes()


class TorchTensors:
    """Tensors of PyTorch in host or device memory."""

    def __init__(self, target):
        self.torch = importlib.import_module("torch")
        self.device = target
        # Makes the device's context current, which the library then opens.
        self.torch.zeros(1, device=target)

    def rows(self, shape, data):
        flat = self.torch.frombuffer(bytearray(data), dtype=self.torch.bfloat16)
        return flat.reshape(shape).to(self.device)

    def filled(self, shape, dtype):
        nbytes = math.prod(shape)
        memory = self.torch.full((nbytes + kvq.RECORD_ALIGN,), 255, dtype=self.torch.uint8, device=self.device)
        return kvq.aligned(memory, nbytes).reshape(shape).view(getattr(self.torch, dtype))

    def integers(self, values, dtype):
        return self.torch.tensor(values, dtype=getattr(self.torch, dtype), device=self.device)

    @staticmethod
    def repeated(row, count):
        return row.expand(count, -1)

    def contents(self, tensor):
        return bytes(tensor.contiguous().view(self.torch.uint8).cpu().numpy())


def run_python(library, layer, tensors, rows):
    """Digests of what this process computes."""
    (tokens, kv_heads, _), (queries, q_heads, dim) = rows["k"][0], rows["q"][0]
    q, k, v = (tensors.rows(*rows[name]) for name in "qkv")
    page = library.page(layer)
    page_tokens = library.geometry(layer).page_tokens
    pages = -(-tokens // page_tokens)
    pool = library.pool(tensors.filled((pages, kv_heads, page.head_stride), "uint8"), layer=layer)
    ids = [pages - 1 - i for i in range(pages)]
    slots = [ids[t // page_tokens] * page_tokens + t % page_tokens for t in range(tokens)]
    library.append(k, v, tensors.integers(slots, "int64"), pool)
    out = tensors.filled((queries, q_heads, 2 * dim), "uint16" if isinstance(tensors, NumpyTensors) else "bfloat16")
    lse = tensors.filled((queries, 4 * q_heads), "float32")
    size = library.workspace_size(batch=queries, max_length=tokens, layer=layer)
    library.decode(q, out, pool, tensors.repeated(tensors.integers([ids], "int32"), queries),
                   tensors.integers(range(tokens - queries + 1, tokens + 1), "int32"), max_length=tokens, lse=lse,
                   workspace=library.workspace(tensors.filled((size,), "uint8")))
    return {name: digest(tensors.contents(t)) for name, t in zip(NAMES, (pool.view.tensor, out, lse))}


def run_c(program, library, layer, rows):
    """Digests of what the C program writes."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(pathlib.Path(folder, name)) for name in ("k", "v", "q", "out", "lse", "cache")}
        for name in "kvq":
            pathlib.Path(paths[name]).write_bytes(rows[name][1])
        subprocess.run([program, library, str(layer), *paths.values()], check=True)
        return {name: digest(pathlib.Path(paths[name]).read_bytes()) for name in NAMES}


def run_tool(program, library, trace, target):
    """Digests that kvq-run prints, one dictionary for each layer."""
    command = [program, library, "--trace", trace, "--target", target, "--json"]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [{name: layer[f"{name}_sha256"] for name in NAMES} for layer in json.loads(text)["layers"]]


def digest(data):
    return hashlib.sha256(data).hexdigest()


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--trace", required=True)
    parser.add_argument("--kvq-run", required=True)
    parser.add_argument("--attend-rows", required=True)
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args(arguments)
    tensors = (TorchTensors if importlib.util.find_spec("torch") else NumpyTensors)(args.target)
    library = kvq.open(args.library, target=args.target, allow_host_code=args.target == "cpu")
    tool, different = run_tool(args.kvq_run, args.library, args.trace, args.target), 0
    for index, rows in enumerate(read_trace(args.trace)):
        layer = index if library.model().layers > 1 else 0
        by = {"kvq-run": tool[index], "C": run_c(args.attend_rows, args.library, layer, rows),
              f"Python with {type(tensors).__name__[:-7]}": run_python(library, layer, tensors, rows)}
        for name in NAMES:
            digests = {way: digests[name] for way, digests in by.items()}
            same = len(set(digests.values())) == 1
            different += not same
            print(f"layer {layer} {name:5} " + (f"the same by {', '.join(digests)}: sha256 {digests['C']}" if same else
                                                f"DIFFERENT: {digests}"))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

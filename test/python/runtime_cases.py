# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of the Python package share: libraries, a cache, attention in float64. Rows of bf16 are the uint16 that
hold their bits."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bin"
sys.path.insert(0, str(ROOT / "build/python"))
import kvq_runtime as kvq  # noqa: E402

TOKENS, KV_HEADS, Q_HEADS, DIM, PAGE = 150, 3, 9, 64, 64


def compile_library(folder, name, edits=(), more="", targets="cpu"):
    """A library of docs/examples/NAME.mlir, of which `edits` replace text, with `more` behind it."""
    text = (ROOT / f"docs/examples/{name}.mlir").read_text()
    for old, new in edits:
        if old not in text:
            raise ValueError(f"{name}.mlir does not hold {old!r}")
        text = text.replace(old, new)
    source, library = pathlib.Path(folder, f"{name}.mlir"), pathlib.Path(folder, f"{name}{len(edits)}.kvqlib")
    source.write_text(text + more)
    subprocess.run([BIN / "kvq-compile", source, "--targets", targets, "-o", library], check=True, capture_output=True)
    return library


def bf16(values):
    """Bits of the nearest bfloat16, ties to even."""
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def wide(bits):
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)


def memory(*shape):
    """Bytes at an address that pools and workspaces take; NaN until they are written."""
    count = int(numpy.prod(shape))
    return kvq.aligned(numpy.full(count + kvq.RECORD_ALIGN, 255, numpy.uint8), count).reshape(shape)


def attention(q, k, v, length):
    """Attention in float64 of one query [Q_HEADS, DIM] over the first tokens, and its log-sum-exp."""
    out, lse = numpy.zeros((Q_HEADS, DIM)), numpy.zeros(Q_HEADS)
    for head in range(Q_HEADS):
        group = head // (Q_HEADS // KV_HEADS)
        logits = k[:length, group] @ q[head] / numpy.sqrt(DIM)
        weights = numpy.exp(logits - logits.max())
        out[head] = weights @ v[:length, group] / weights.sum()
        lse[head] = logits.max() + numpy.log(weights.sum())
    return out, lse


class Cache:
    """A sequence of random rows in a pool of a library."""

    def __init__(self, library, seed=1, split_heads=False):
        random = numpy.random.default_rng(seed)
        self.k, self.v = (bf16(random.standard_normal((TOKENS, KV_HEADS, DIM))) for _ in range(2))
        self.q = bf16(random.standard_normal((2, Q_HEADS, DIM)))
        page, pages = library.page(), -(-TOKENS // PAGE)
        shape = (pages, KV_HEADS, page.head_stride) if split_heads else (pages, page.page_bytes)
        self.pool = library.pool(memory(*shape))
        self.ids = numpy.arange(pages, dtype=numpy.int32)[::-1].copy()
        self.slots = numpy.array([self.ids[t // PAGE] * PAGE + t % PAGE for t in range(TOKENS)], numpy.int64)

    def table(self, batch=1):
        return numpy.tile(self.ids, (batch, 1))

    def decode(self, library, lengths, **options):
        """out and lse of query 0 for each length."""
        batch = len(lengths)
        q = numpy.repeat(self.q[:1], batch, 0)
        out, lse = numpy.zeros_like(q), numpy.zeros((batch, Q_HEADS), numpy.float32)
        size = library.workspace_size(batch=batch, max_length=TOKENS)
        library.decode(q, out, self.pool, self.table(batch), numpy.array(lengths, numpy.int32), max_length=TOKENS,
                       workspace=library.workspace(memory(size)), lse=lse, **options)
        return out, lse


class WithLibrary(unittest.TestCase):
    name, edits, more, targets = "hadamard_clip_int2", (), "", "cpu"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = compile_library(cls.folder.name, cls.name, cls.edits, cls.more, cls.targets)

    def setUp(self):
        self.library = kvq.open(self.path, allow_host_code=True)
        self.addCleanup(self.library.close)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the GPU tile ops on window rows to PTX and runs it as a warp without a GPU (ptx_warp.py).

A function attends window rows and leaves a partial result, as the decode kernels do. Outputs and log-sum-exps are held
to attention in double over the stored rows; rows that do not count are NaN, and no row of V among them may be read."""

import argparse
import math
import random
import struct
import subprocess
import sys
from dataclasses import dataclass

import ptx_warp

MOST_ERROR = 1e-5  # p has a mantissa of 16 bits
MOST_LSE_ERROR = 1e-6  # of a unit of the logits
BASE, SIZE, PITCH = 4096, 1 << 19, 33


@dataclass(frozen=True)
class Case:
    key_dim: int
    value_dim: int
    bits: int
    group: int
    queries: int
    element: str
    begin: int
    end: int
    spread: float  # of logits


CASES = (
    Case(64, 64, 2, 64, 4, "bf16", 0, 16, 1),
    Case(64, 64, 2, 64, 4, "f16", 0, 16, 1),
    Case(128, 64, 4, 32, 4, "bf16", 5, 41, 3),
    Case(64, 128, 8, 64, 8, "f16", 21, 33, 8),
    Case(96, 160, 2, 32, 12, "bf16", 0, 50, 30),
    Case(128, 128, 2, 128, 16, "f16", 3, 80, 60),
    Case(128, 128, 2, 128, 4, "f16", 3, 320, 0.01),
)

MODULE = """
#k = #kvq.tile_side<dim = {key_dim}, bits = {bits}, group = {group}, form = "min", params = f16>
#v = #kvq.tile_side<dim = {value_dim}, bits = 2, group = {value_dim}, form = "min", params = f16>
#record = #kvq.tile_record<k = #k, v = #v>
llvm.func @attend(%k: !llvm.ptr, %v: !llvm.ptr, %begin: i64, %end: i64, %tiles: i64, %w: !llvm.ptr, %p: !llvm.ptr) {{
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c16 = arith.constant 16 : i64
  %kb = arith.constant {key_bytes} : i64
  %vb = arith.constant {value_bytes} : i64
  %q = kvq.tile.load_query %w {{record = #record, queries = {queries}}} : (!llvm.ptr) -> !kvq.fragment<query>
  %t0, %o0 = kvq.tile.init_window {{record = #record, queries = {queries}}}
    : () -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
  %r:2 = scf.for %i = %c0 to %tiles step %c1 iter_args(%t = %t0, %o = %o0)
      -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>) : i64 {{
    %first = arith.muli %i, %c16 : i64
    %b = arith.subi %begin, %first : i64
    %e = arith.subi %end, %first : i64
    %ko = arith.muli %i, %kb : i64
    %vo = arith.muli %i, %vb : i64
    %keys = llvm.getelementptr %k[%ko] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %values = llvm.getelementptr %v[%vo] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %s0 = kvq.tile.dot_rows %keys, %b, %e, %q {{record = #record, queries = {queries}, element = {element}}}
      : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
    %s1 = kvq.tile.mask_rows %s0, %b, %e {{queries = {queries}}}
      : (!kvq.fragment<scores>, i64, i64) -> !kvq.fragment<scores>
    %t1, %o1, %weights = kvq.tile.weigh_window %t, %o, %s1
      {{record = #record, queries = {queries}, element = {element}}}
      : (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<scores>)
      -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<window_weights>)
    %o2 = kvq.tile.accumulate_window %o1, %values, %b, %e, %weights
      {{record = #record, queries = {queries}, element = {element}}}
      : (!kvq.fragment<window_output>, !llvm.ptr, i64, i64, !kvq.fragment<window_weights>)
      -> !kvq.fragment<window_output>
    scf.yield %t1, %o2 : !kvq.fragment<window_softmax>, !kvq.fragment<window_output>
  }}
  %t2 = kvq.tile.init_softmax {{queries = {queries}, record = #record}} : () -> !kvq.fragment<softmax>
  %o3 = kvq.tile.init_output %p {{record = #record, queries = {queries}}} : (!llvm.ptr) -> !kvq.fragment<output>
  %t3, %o4 = kvq.tile.enter_window %t2, %o3, %r#0, %r#1 {{record = #record, queries = {queries}}}
    : (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
    -> (!kvq.fragment<softmax>, !kvq.fragment<output>)
  kvq.tile.flush %o4, %t3, %p {{record = #record, queries = {queries}}}
    : (!kvq.fragment<output>, !kvq.fragment<softmax>, !llvm.ptr) -> ()
  llvm.return
}}
"""

STAGES = (
    "kvq-opt --kvq-gpu-to-llvm",
    "mlir-translate --mlir-to-llvmir",
    "opt -S -O3 -mtriple=nvptx64-nvidia-cuda -mcpu=sm_80",
    "llc -O3 -mtriple=nvptx64-nvidia-cuda -mcpu=sm_80 -mattr=+ptx70",
)


def ptx_of(case):
    text = MODULE.format(**vars(case), key_bytes=32 * case.key_dim, value_bytes=32 * case.value_dim)
    text = text.replace(f"queries = {case.queries}", f"queries = {case.queries} : i64")
    for stage in STAGES:
        done = subprocess.run(stage.split(), input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{stage}: {done.stderr.strip()}")
        text = done.stdout
    return text


class Attention:
    """The operands of a case in memory, and what the warp made of them."""

    def __init__(self, case, seed):
        self.case, self.random, self.memory = case, random.Random(seed), bytearray(b"\xff" * SIZE)
        self.tiles = (case.end + 15) // 16 + 1  # of the last no row counts
        self.keys, self.key_at = self.rows(BASE, case.key_dim, 0)
        self.values, self.value_at = self.rows(self.key_at + 32 * self.tiles * case.key_dim, case.value_dim, 1.5)
        self.query_at = self.value_at + 32 * self.tiles * case.value_dim
        self.queries, words = self.query_words()
        self.put(self.query_at, "I", words)
        self.partial_at = (self.query_at + 4 * len(words) + 127) // 128 * 128

    def put(self, at, kind, values):
        struct.pack_into(f"<{len(values)}{kind}", self.memory, at, *values)

    def rows(self, at, dim, mean):
        """What counts of them; the rest stays NaN."""
        read, write = ptx_warp.PAIRS[self.case.element]
        rows = []
        for row in range(self.case.begin, self.case.end):
            bits = [write(mean + self.random.gauss(0, 1)) for _ in range(dim)]
            self.put(at + 2 * dim * row, "H", bits)
            rows.append([read(x) for x in bits])
        return rows, at

    def query_words(self):
        """The query workspace (codegen/conversion/gpu/Query.cpp), and the queries it holds, as factors of log2 scores."""
        case = self.case
        tiles, steps, row_words = (case.queries + 3) // 4, case.key_dim // 16, case.key_dim // case.group + 2
        words, queries = [0] * (tiles * steps * 32 + 4 * tiles * row_words), []
        unit = 64 if case.bits == 2 else 1
        for query in range(case.queries):
            numbers = [self.random.gauss(0, case.spread) / math.sqrt(case.key_dim) for _ in range(case.key_dim)]
            step = max(map(abs, numbers)) / 32512
            numbers = [round(x / step) for x in numbers]
            for channel, x in enumerate(numbers):
                high = (x + 128) >> 8
                word = (query // 4 * steps + channel // 16) * 32 + 8 * (query % 4) + channel // 4 % 4
                words[word] |= (high & 255) << 8 * (channel % 4)
                words[word + 4] |= (x - 256 * high & 255) << 8 * (channel % 4)
            bits = ptx_warp.bits_of(step * math.log2(math.e) / unit)
            words[tiles * steps * 32 + query * row_words] = bits
            queries.append([x * unit * ptx_warp.float_of(bits) for x in numbers])
        return queries, words

    def loaded(self, address, size):
        row = (address - self.value_at) // (2 * self.case.value_dim)
        if self.value_at <= address < self.query_at and not self.case.begin <= row < self.case.end:
            raise ptx_warp.Fault(f"reads row {row} of V, which does not count")

    def run(self, text):
        warp = ptx_warp.Warp(text, "attend", self.memory, self.loaded)
        warp.run(self.key_at, self.value_at, self.case.begin, self.case.end, self.tiles, self.query_at, self.partial_at)

    def word(self, index):
        return struct.unpack_from("<f", self.memory, self.partial_at + 4 * index)[0]

    def error(self, query):
        """Relative error of the output (l2), and error of the log-sum-exp."""
        scores = [sum(a * b for a, b in zip(self.queries[query], row)) for row in self.keys]
        most = max(scores)
        p = [2.0 ** (score - most) for score in scores]
        columns = [sum(x * row[c] for x, row in zip(p, self.values)) / sum(p) for c in range(self.case.value_dim)]
        slices = self.case.value_dim // 8  # GpuWorkspace.h
        scalars = (self.case.queries + 3) // 4 * slices * PITCH + 2 * query
        total = self.word(scalars + 1)
        first = query // 4 * slices * PITCH + query % 4
        got = [self.word(first + c // 8 * PITCH + c % 8 * 4) / total for c in range(self.case.value_dim)]
        norm = math.hypot(*columns)
        lse = (self.word(scalars) + math.log2(total) - most - math.log2(sum(p))) * math.log(2)
        return math.hypot(*(a - b for a, b in zip(got, columns))) / norm, abs(lse)


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    bad = 0
    for seed, case in enumerate(CASES):
        attention = Attention(case, seed)
        attention.run(ptx_of(case))
        errors = [attention.error(query) for query in range(case.queries)]
        out, lse = (max(column) for column in zip(*errors))
        good = out < MOST_ERROR and lse < MOST_LSE_ERROR * max(1, case.spread)
        bad += not good
        print(f"{case}: output {out:.1e}, log-sum-exp {lse:.1e}{'' if good else ': too large'}")
    print(f"{len(CASES)} cases, {bad} with an error that is too large")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python package with PyTorch. Attention is held against float64 over what the records hold; on a GPU, append, plan
and decode are captured in a graph, which is then replayed over other tokens, pages, lengths and numbers of sequences:
the bits must be those of the same calls without a graph.

usage: test/gpu/torch_check.py LIBRARY... [--target cpu|cuda]
The package is found on PYTHONPATH (build/python). Libraries of plain attention: no windows of either kind, no softcap, no
learned sinks.
"""

import argparse
import math
import sys

import kvq_runtime as kvq
import torch

BATCH, PAGES, ROW_PAGES = 6, 200, 24
ROWS = {kvq.Element.F16: torch.float16, kvq.Element.BF16: torch.bfloat16}
#: Lengths of replays; 0: no such sequence. The graph is captured with the first.
STEPS = [[1] * BATCH, [700, 0, 1, 64, 0, 1023], [1024, 3, 65, 127, 128, 1000], [0, 0, 5, 0, 0, 0]]


def random_rows(generator, *shape, element):
    return torch.randn(*shape, generator=generator).to(ROWS[kvq.Element(element)])


def filled(nbytes, device):
    """uint8 memory as pools and workspaces take it; NaN until it is written."""
    return kvq.aligned(torch.full((nbytes + kvq.RECORD_ALIGN,), 255, dtype=torch.uint8, device=device), nbytes)


class Step:
    """Arguments of a decode step, in memory that stays where it is, as a graph needs."""

    def __init__(self, library, device, q_length):
        self.library, self.device, self.q_length = library, device, q_length
        self.shape = shape = library.geometry()
        page = library.page()
        self.page_tokens = shape.page_tokens
        self.pool = library.pool(filled(PAGES * page.page_bytes, device).view(PAGES, -1))
        self.tokens = BATCH * q_length

        def rows(heads, dim, element):
            return torch.zeros(self.tokens, heads, dim, dtype=ROWS[kvq.Element(element)], device=device)

        self.k, self.v = rows(shape.kv_heads, shape.key_dim, shape.key_rows), rows(shape.kv_heads, shape.value_dim,
                                                                                  shape.value_rows)
        self.q, self.out = rows(shape.q_heads, shape.key_dim, shape.query_rows), rows(shape.q_heads, shape.value_dim,
                                                                                     shape.query_rows)
        self.lse = torch.zeros(self.tokens, shape.q_heads, device=device)
        self.slots = torch.zeros(self.tokens, dtype=torch.int64, device=device)
        self.table = torch.zeros(BATCH, ROW_PAGES, dtype=torch.int32, device=device)
        self.lengths = torch.zeros(BATCH, dtype=torch.int32, device=device)
        self.max_length = ROW_PAGES * self.page_tokens
        size = library.workspace_size(batch=BATCH, max_length=self.max_length, q_length=q_length)
        self.workspace = library.workspace(filled(size, device))

    def fill(self, seed, lengths):
        """Other tokens, pages and lengths, and a cache of random records that holds all but the last tokens."""
        generator = torch.Generator().manual_seed(seed)
        shape, page = self.shape, self.page_tokens
        table = torch.randperm(PAGES, generator=generator)[:BATCH * ROW_PAGES].view(BATCH, ROW_PAGES)
        tokens = ROW_PAGES * page
        every = (table[:, :, None] * page + torch.arange(page)).view(BATCH, tokens)
        for row in range(BATCH):
            k = random_rows(generator, tokens, shape.kv_heads, shape.key_dim, element=shape.key_rows)
            v = random_rows(generator, tokens, shape.kv_heads, shape.value_dim, element=shape.value_rows)
            self.library.append(k.to(self.device), v.to(self.device), every[row].to(self.device), self.pool)
        slots = [int(every[row, length - self.q_length + j]) if length >= self.q_length else -1
                 for row, length in enumerate(lengths) for j in range(self.q_length)]
        for tensor, values in (
                (self.k, random_rows(generator, *self.k.shape, element=shape.key_rows)),
                (self.v, random_rows(generator, *self.v.shape, element=shape.value_rows)),
                (self.q, random_rows(generator, *self.q.shape, element=shape.query_rows)),
                (self.slots, torch.tensor(slots)), (self.table, table), (self.lengths, torch.tensor(lengths))):
            tensor.copy_(values)
        self.out.fill_(7), self.lse.fill_(7)

    def run(self):
        step = {"max_length": self.max_length, "workspace": self.workspace, "q_length": self.q_length}
        self.library.append(self.k, self.v, self.slots, self.pool)
        self.library.plan(self.pool, self.table, self.lengths, q_heads=self.shape.q_heads, **step)
        self.library.decode(self.q, self.out, self.pool, self.table, self.lengths, lse=self.lse, planned=True, **step)

    def results(self):
        return [tensor.cpu().clone() for tensor in (self.out, self.lse, self.pool.view.tensor)]

    def error(self):
        """Relative l2 error of `out` against float64 over what the records hold."""
        shape, page, square, total = self.shape, self.page_tokens, 0.0, 0.0
        out = self.out.double().cpu().view(BATCH, self.q_length, shape.q_heads, shape.value_dim)
        for row, length in enumerate(self.lengths.tolist()):
            slots = (self.table[row, :, None] * page + torch.arange(page, device=self.device)).view(-1)[:length].long()
            k = torch.zeros(length, shape.kv_heads, shape.key_dim, device=self.device)
            v = torch.zeros(length, shape.kv_heads, shape.value_dim, device=self.device)
            if length:
                self.library.dequantize(k, v, slots, self.pool)
            for j in range(self.q_length):
                end = length - self.q_length + 1 + j
                expected = self.attend(row * self.q_length + j, k[:max(end, 0)].double().cpu(),
                                       v[:max(end, 0)].double().cpu())
                square += float((out[row, j] - expected).square().sum())
                total += float(expected.square().sum())
        return math.sqrt(square / total)

    def attend(self, query, k, v):
        shape = self.shape
        ratio = shape.q_heads // shape.kv_heads
        q = self.q[query].double().cpu().view(shape.kv_heads, ratio, shape.key_dim)
        weights = torch.softmax(torch.einsum("hrd,thd->hrt", q, k) * shape.scale, dim=-1)
        return torch.einsum("hrt,thd->hrd", weights, v).reshape(shape.q_heads, shape.value_dim)


def check_graph(step):
    """Bits of a replayed graph and of eager calls, for each of STEPS."""
    step.library.load()
    step.fill(0, STEPS[0])
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step.run()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        before = torch.cuda.memory_allocated()
        step.run()
        if (now := torch.cuda.memory_allocated()) != before:
            raise SystemExit(f"the calls take {now - before} bytes of PyTorch's memory")
    for seed, lengths in enumerate(STEPS):
        step.fill(seed + 1, lengths)
        step.run()
        torch.cuda.synchronize()
        eager = step.results()
        step.fill(seed + 1, lengths)
        graph.replay()
        torch.cuda.synchronize()
        if not all(torch.equal(a, b) for a, b in zip(eager, step.results())):
            raise SystemExit(f"replay of lengths {lengths} differs from eager calls")
    return len(STEPS)


def check(path, target):
    torch.zeros(1, device=target)  # makes the device's context current, which the library then opens
    with kvq.open(path, target=target, allow_host_code=target == "cpu") as library:
        shape = library.geometry()
        if shape.window_rows or shape.window or shape.softcap or shape.sinks:
            raise SystemExit(f"{path}: expected a library of plain attention")
        for q_length in (1, 4):
            step = Step(library, target, q_length)
            worst = 0.0
            for seed, lengths in enumerate(STEPS[1:]):
                step.fill(seed, lengths)
                step.run()
                worst = max(worst, step.error())
            # Outputs are rounded to the element type of rows: 2^-9 of a bf16 at most.
            if not worst < 2.0 ** -8:
                raise SystemExit(f"{path}: expected an error below {2.0 ** -8:.1e}, got {worst:.1e}")
            replays = f", {check_graph(step)} replays bit-equal" if target == "cuda" else ""
            print(f"{path}: q_length {q_length}: error {worst:.2e}, output rounding included{replays}")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="+")
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cuda")
    args = parser.parse_args(arguments)
    for path in args.libraries:
        check(path, args.target)
    print(f"{len(args.libraries)} libraries, PyTorch {torch.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

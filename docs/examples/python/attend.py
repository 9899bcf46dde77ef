# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One sequence, one layer, on the CPU: append tokens to a cache, attend over it. The package kvq-runtime and NumPy.

usage: attend.py LIBRARY     a library for rows of bf16, without high-precision windows

With PyTorch the calls are the same: torch.bfloat16 tensors instead of the uint16 that hold the bits of bf16, and on a GPU
target="cuda" and device="cuda".
"""

import sys

import kvq_runtime as kvq
import numpy as np

TOKENS = 100


def memory(nbytes):
    """Host memory as pools and workspaces take it."""
    return kvq.aligned(np.zeros(nbytes + kvq.RECORD_ALIGN, np.uint8), nbytes)


def bf16(values):
    """The upper half of each float32; the numbers of this example need no rounding."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


# The kernels in the file are machine code: allow it for files that you trust like a program.
with kvq.open(sys.argv[1], allow_host_code=True) as library:
    shape, page = library.geometry(layer=0), library.page(layer=0)
    print(f"kvq {kvq.version()}: {shape.kv_heads} KV heads, {page.bits_per_element:.2f} bits per element")

    # The cache is the caller's memory: a row of bytes for each page. Its table names pages from the last to the first.
    pages = -(-TOKENS // shape.page_tokens)
    pool = library.pool(memory(pages * page.page_bytes).reshape(pages, -1), layer=0)
    table = np.arange(pages, dtype=np.int32)[None, ::-1].copy()

    token = np.arange(TOKENS)
    slots = table[0, token // shape.page_tokens].astype(np.int64) * shape.page_tokens + token % shape.page_tokens
    k = bf16(np.arange(TOKENS * shape.kv_heads * shape.key_dim) % 7 - 3).reshape(TOKENS, shape.kv_heads, -1)
    v = np.broadcast_to(bf16(np.where(np.arange(shape.value_dim) % 3, 1, -1)), (TOKENS, shape.kv_heads, shape.value_dim))
    library.append(k, v.copy(), slots, pool)

    q = bf16(np.arange(shape.q_heads * shape.key_dim) % 5 - 2).reshape(1, shape.q_heads, -1)
    out = np.zeros((1, shape.q_heads, shape.value_dim), np.uint16)
    workspace = library.workspace(memory(library.workspace_size(batch=1, max_length=TOKENS)))
    library.decode(q, out, pool, table, np.array([TOKENS], np.int32), max_length=TOKENS, workspace=workspace)
    values = (out[0, 0, :4].astype(np.uint32) << 16).view(np.float32)
    print(f"attention over {TOKENS} tokens: {' '.join(f'{value:.2f}' for value in values)} ...")

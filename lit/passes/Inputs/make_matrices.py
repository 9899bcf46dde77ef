# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints a module with an identity, a permutation and a permutation with signs as constants of 32 channels, and a
pipeline of one group for each place in which such a factor can stand.

usage: make_matrices.py
"""

DIM = 32
PIPELINE = """
kvq.pipeline @{name} {{
  %x = kvq.rows : !kvq.rows<?x{dim}xbf16>
  %r = kvq.rotate %x by [{factors}] : !kvq.rows<?x{dim}xbf16>
  %g = kvq.group %r along channel size {group} : {rows}
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<{rows}, {group}>
  kvq.pack %q native : !kvq.codes<{rows}, {group}, 2, min_form, f16>
}}"""


def matrix(column, dim, sign=1):
    rows = [[0.0] * dim for _ in range(dim)]
    for row in range(dim):
        rows[row][column(row) % dim] = float(sign)
        sign = -sign if sign < 0 else sign
    return rows


def constant(name, *heads):
    kind = f"tensor<1x{len(heads)}x{len(heads[0])}x{len(heads[0])}xf32>"
    return f"  kvq.constant @{name} : {kind} = dense<[{list(heads)}]> : {kind}"


def pipeline(name, factors, dim=DIM, group=DIM):
    rows = f"!kvq.rows<?x{dim}xbf16, basis = [{factors}]>"
    print(PIPELINE.format(name=name, factors=factors, rows=rows, dim=dim, group=group))


print("kvq.constants @t {")
print(constant("identity", matrix(lambda row: row, DIM)))
print(constant("shift", matrix(lambda row: row + 1, DIM)))
print(constant("signs", matrix(lambda row: row + 1, DIM, sign=-1)))
print(constant("wide", matrix(lambda row: row + 1, 2 * DIM)))
print(constant("one_head", matrix(lambda row: row + 1, DIM), matrix(lambda row: row, DIM)))
print("}")
pipeline("identity_first", "dense<@t::@identity>, hadamard<32>")
pipeline("shift_last", "hadamard<32>, dense<@t::@shift>")
pipeline("shift_first", "dense<@t::@shift>, hadamard<32>")
pipeline("signs_last", "hadamard<32>, dense<@t::@signs>")
pipeline("two_groups", "dense<@t::@wide>", dim=2 * DIM, group=DIM)
pipeline("inverse_apart", "hadamard<32>, dense<@t::@identity>, hadamard<32>")
pipeline("one_head_first", "dense<@t::@one_head>, hadamard<32>")

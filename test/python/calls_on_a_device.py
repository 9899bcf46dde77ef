# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls with target "cuda" over a driver whose device memory is the host's (test/gpu/fake_driver.c).

usage: calls_on_a_device.py LIBRARY
"""

import sys
import numpy
import runtime_cases as common
from kvq_runtime import _tensors
from runtime_cases import kvq


class OnDevice:
    """An array that says it lies on a CUDA device."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream):
        assert stream == -1, "the package makes no framework wait"
        capsule = self.array.__dlpack__()
        raw = _tensors._Tensor.from_address(_tensors._capsule_pointer(capsule, b"dltensor"))
        raw.device.type = 2
        return capsule


with kvq.open(sys.argv[1], target="cuda") as library:
    library.load()
    page, shape = library.page(), library.geometry()
    device = lambda *shape, dtype=numpy.uint16: OnDevice(numpy.zeros(shape, dtype))
    pool = library.pool(OnDevice(common.memory(4, page.page_bytes)))
    k = device(2, shape.kv_heads, shape.key_dim)
    library.append(k, k, device(2, dtype=numpy.int64), pool, stream=3)
    size = library.workspace_size(batch=2, max_length=100)
    step = {"max_length": 100, "workspace": library.workspace(OnDevice(common.memory(size)))}
    out = OnDevice(numpy.full((2, shape.q_heads, shape.value_dim), 7, numpy.uint16))
    table, lengths = device(2, 2, dtype=numpy.int32), device(2, dtype=numpy.int32)
    library.plan(pool, table, lengths, **step)
    for planned in (True, False):
        library.decode(device(2, shape.q_heads, shape.key_dim), out, pool, table, lengths, planned=planned, **step)
    assert not out.array.any()
    try:
        library.append(k.array, k, device(2, dtype=numpy.int64), pool)
    except ValueError as error:
        print(error)

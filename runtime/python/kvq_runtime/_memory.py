# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory that a caller owns and hands to calls: pools of pages, page tables, windows, workspaces."""

from . import _abi
from ._tensors import BYTES, INT32, View


def up(nbytes):
    """Bytes up to a multiple of RECORD_ALIGN: how far records, or window rows, of two KV heads lie apart at least."""
    return -(-nbytes // _abi.RECORD_ALIGN) * _abi.RECORD_ALIGN


def aligned(tensor, nbytes, alignment=_abi.RECORD_ALIGN):
    """The slice of `nbytes` bytes at the first aligned address of a uint8 tensor [at least nbytes + alignment - 1].
    For host memory: frameworks align it to 64 bytes or fewer, pools need RECORD_ALIGN. Device memory needs none."""
    view = View("tensor", tensor).expect(BYTES, None, contiguous=True)
    begin = -view.data % alignment
    if view.shape[0] < begin + nbytes:
        raise ValueError(f"tensor: expected {nbytes + alignment - 1} bytes, got {view.shape[0]}")
    return tensor[begin:begin + nbytes]


class Pool:
    """Pages of records, or of high-precision rows, of one layer. Made by Library.pool and Library.window_pool.

    `tensor` is uint8, [pages, bytes] or [pages, KV heads, bytes of a head]; in the second form any order of pages and
    heads is expressed by its strides. Unwritten records need no initialization.
    """

    def __init__(self, tensor, layer, first_head, kv_heads, page_tokens, used_bytes, head_stride):
        self.view = View("pool", tensor).dense_rows()
        self.layer, self.page_tokens = layer, page_tokens
        self.used_bytes = used_bytes  #: of a page and head, without padding
        ndim, head_bytes = len(self.view.shape), self.view.shape[-1]
        if ndim == 3:
            self.view.expect(BYTES, None, kv_heads, None)
            head_stride = self.view.strides[1]
        else:
            self.view.expect(BYTES, None, None)
            head_bytes -= (kv_heads - 1) * head_stride
        if head_bytes < used_bytes:
            raise ValueError(f"pool: a page of {page_tokens} tokens and {kv_heads} KV heads has too few bytes: expected "
                             f"{used_bytes} for the last head, got {head_bytes}")
        self.place = _abi.kvq_place(layer, first_head, kv_heads)
        self.pages = self.view.shape[0]
        # A single page or head may come with any stride.
        page_stride = self.view.strides[0] if self.pages > 1 else _at_least(self.view.strides[0], used_bytes)
        head_stride = head_stride if kv_heads > 1 else _at_least(head_stride, used_bytes)
        self.struct = _abi.kvq_pool(self.view.data, page_stride, head_stride, page_tokens)

    @property
    def kv_heads(self):
        return self.place.kv_heads


def _at_least(stride, used_bytes):
    """A stride that is never used, but must be one that the runtime takes."""
    fits = stride >= used_bytes and stride % _abi.RECORD_ALIGN == 0
    return stride if fits else up(used_bytes)


class PageTable:
    """Page ids of sequences, int32, in one of two forms.

    `ids` [batch, columns]: a row for each sequence; Tensor.expand may give all the same row. Or, with `indptr` int32
    [batch + 1], `ids` [any] in which the row of sequence i begins at indptr[i], and `columns`, a bound of ids in a row.
    """

    def __init__(self, ids, indptr=None, columns=None, name="table"):
        self.views = [View(name, ids)]
        ids = self.views[0]
        if indptr is None:
            ids.expect(INT32, None, None).dense_rows()
            self.batch, columns = ids.shape
            self.struct = _abi.kvq_page_table(ids.data, None, ids.strides[0] if self.batch > 1 else 0, columns)
            return
        if columns is None:
            raise ValueError(f"{name}: expected `columns`, the most page ids of a sequence, beside `indptr`")
        ids.expect(INT32, None, contiguous=True)
        self.views.append(View(f"{name}.indptr", indptr).expect(INT32, None, contiguous=True))
        self.batch = self.views[1].shape[0] - 1
        self.struct = _abi.kvq_page_table(ids.data, self.views[1].data, 0, columns)

    @classmethod
    def of(cls, table, batch, name="table"):
        """A tensor or a PageTable, for `batch` sequences."""
        table = table if isinstance(table, cls) else cls(table, name=name)
        if table.batch != batch:
            raise ValueError(f"{name}: expected rows of {batch} sequences, got {table.batch}")
        return table


class Windows:
    """High-precision rows of a batch: the pool of Library.window_pool, page tables of the sink and of the recent ring
    (int32 [batch, columns]), and quantized_lengths (int32 [batch])."""

    def __init__(self, pool, recent, quantized_lengths, sink=None):
        self.quantized = View("quantized_lengths", quantized_lengths).expect(INT32, None, contiguous=True)
        batch = self.quantized.shape[0]
        tables = [PageTable.of(recent, batch, "recent")]
        if sink is not None:
            tables.append(PageTable.of(sink, batch, "sink"))
        self.batch = batch
        self.views = [pool.view, self.quantized] + [view for table in tables for view in table.views]
        none = _abi.kvq_page_table()
        self.struct = _abi.kvq_windows(pool.struct, tables[1].struct if sink is not None else none, tables[0].struct,
                                       self.quantized.data)


class Workspace:
    """Scratch memory of decode, one per stream: uint8 [Library.workspace_size], made ready by Library.workspace. Its
    first 4 bytes, read as uint32, gather the faults of kernels (FAULT_LENGTH)."""

    def __init__(self, tensor):
        self.view = View("workspace", tensor).expect(BYTES, None, contiguous=True)

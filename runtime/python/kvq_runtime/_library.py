# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A library file, opened: what it is, and the calls on a cache."""

import ctypes
import json
import os
import typing

from . import _abi
from ._abi import ReasonCode, Status, Target
from ._loader import C, check
from ._memory import PageTable, Pool, Workspace, up
from ._tensors import BYTES, ELEMENTS, FLOAT32, INT32, INT64, View, check_devices, stream_address

_TARGETS = {"cpu": Target.CPU, "cuda": Target.CUDA}


class Reason(typing.NamedTuple):
    """Why a library cannot do something. `layer` is the first that it concerns, -1: all."""

    code: ReasonCode
    layer: int
    text: str


def open(path, *, target="cpu", allow_host_code=False, threads=0):
    """Opens a library file. `target` is "cpu" or "cuda" (the device that is current; torch.cuda.set_device and one use
    of it make one current). `allow_host_code` is needed on the CPU: the kernels in the file are machine code, so give
    it for files that you trust like a program. Errors: Error."""
    return Library(C.kvq_open, os.fsencode(path), target=target, allow_host_code=allow_host_code, threads=threads)


def open_memory(data, *, target="cpu", allow_host_code=False, threads=0):
    """The same from bytes, which are copied."""
    return Library(C.kvq_open_memory, bytes(data), len(data), target=target, allow_host_code=allow_host_code,
                   threads=threads)


class Library:
    """An opened library; a context manager. Threads may share it, each with its own workspace.

    With target "cuda", calls launch into `stream` and return: an integer (CUstream), or an object with
    `__cuda_stream__` or `cuda_stream`; by default PyTorch's current stream where tensors are PyTorch's, else the
    default stream. They may be captured in a graph after load(). Tensors must live until the stream has run them.
    Errors of all calls: Error; ValueError and TypeError for tensors of a wrong dtype, shape or device.
    """

    def __init__(self, opener, *source, target, allow_host_code, threads):
        if target not in _TARGETS:
            raise ValueError(f"target: expected 'cpu' or 'cuda', got {target!r}")
        self._handle, self._geometry = ctypes.c_void_p(), {}
        self.target = _TARGETS[target]
        options = _abi.kvq_open_options(flags=_abi.ALLOW_HOST_CODE if allow_host_code else 0, threads=threads,
                                        target=self.target)
        check(opener(*source, options, self._handle))

    def close(self):
        """Frees the library; pages and workspaces are the caller's. Calls behind it raise ValueError."""
        handle, self._handle = self._handle, None
        if handle:
            C.kvq_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def _opened(self):
        if self._handle is None:
            raise ValueError("the library is closed")
        return self._handle

    def _call(self, function, *arguments):
        check(function(self._opened(), *arguments))

    def load(self, layer=-1):
        """Loads code and constants of a layer's format, or of all: what calls do by themselves, done before a
        capture."""
        self._call(C.kvq_load, layer)

    # ---- What a library is

    def model(self):
        """Numbers of layers and of formats."""
        model = _abi.kvq_model()
        self._call(C.kvq_query_model, model)
        return model

    def format(self, layer):
        """Number of the layer's format; None for a layer that is not quantized."""
        number = ctypes.c_int32()
        self._call(C.kvq_query_layer, layer, ctypes.byref(number))
        return None if number.value < 0 else number.value

    def geometry(self, layer=0):
        """Heads, dims, element types (Element), bits and attention of a layer: the members of kvq_geometry."""
        if layer not in self._geometry:
            geometry = _abi.kvq_geometry()
            self._call(C.kvq_query, layer, geometry)
            self._geometry[layer] = geometry
        return self._geometry[layer]

    def page(self, layer=0, page_tokens=0):
        """Bytes and identity of a page: the members of kvq_page_geometry. 0 tokens: the library's default."""
        page = _abi.kvq_page_geometry()
        self._call(C.kvq_query_page, layer, page_tokens, page)
        return page

    def method(self, layer=0):
        """The method of a layer, read from its JSON text; None if it is not quantized."""
        return self._document(C.kvq_method_text, layer)

    def manifest(self):
        """The manifest, read from its JSON text; None if the file has none."""
        return self._document(C.kvq_manifest_text)

    def _document(self, function, *arguments):
        text = function(self._opened(), *arguments)
        return None if text is None else json.loads(text)

    def supports(self, *, capture=False, demote=False, dequantize=False, **use):
        """All reasons (a list of Reason) why the library cannot serve a use here; empty if it can. `use` are members of
        kvq_use: q_heads, kv_heads, layers, key_dim, value_dim, key_rows, value_rows, query_rows (Element), page_tokens,
        q_length, sink, recent, softcap."""
        flags = (capture * _abi.USE_CAPTURE) | (demote * _abi.USE_DEMOTE) | (dequantize * _abi.USE_DEQUANTIZE)
        known = {name for name, _ in _abi.kvq_use._fields_} - {"size", "flags"}
        if unknown := sorted(set(use) - known):
            raise TypeError(f"supports: unknown {', '.join(unknown)}; expected some of {', '.join(sorted(known))}")
        asked, count = _abi.kvq_use(flags=flags, **use), ctypes.c_int32()
        handle = self._opened()
        status = C.kvq_supports(handle, asked, None, 0, ctypes.byref(count))
        if status not in (Status.OK, Status.UNSUPPORTED):
            check(status)
        reasons = (_abi.kvq_reason * count.value)()
        C.kvq_supports(handle, asked, reasons, count.value, None)
        return [Reason(ReasonCode(reason.code), reason.layer, reason.text.decode()) for reason in reasons]

    # ---- Memory

    def pool(self, tensor, *, layer=0, page_tokens=0, first_head=0, kv_heads=0):
        """A Pool of records for a layer in a uint8 tensor [pages, bytes] or [pages, KV heads, bytes]. The heads are
        those of the model from `first_head`: 0, all of them, or as many as the second form has."""
        page = self.page(layer, page_tokens)
        kv_heads = self._heads(tensor, layer, kv_heads)
        return Pool(tensor, layer, first_head, kv_heads, page_tokens or self.geometry(layer).page_tokens,
                    page.record_bytes, page.head_stride)

    def window_pool(self, tensor, *, layer=0, page_tokens=0, first_head=0, kv_heads=0):
        """The same for high-precision rows."""
        default = self.geometry(layer).page_tokens
        page_tokens = page_tokens or default
        used = self.page(layer).window_bytes // default * page_tokens
        kv_heads = self._heads(tensor, layer, kv_heads)
        return Pool(tensor, layer, first_head, kv_heads, page_tokens, used, up(used))

    def _heads(self, tensor, layer, kv_heads):
        shape = View("pool", tensor).shape
        return kv_heads or (shape[1] if len(shape) == 3 else self.geometry(layer).kv_heads)

    def workspace_size(self, *, batch, max_length, q_length=1, q_heads=0, split_tokens=0, layer=0, first_head=0,
                       kv_heads=0):
        """Bytes of a workspace for calls of decode up to this batch, max_length and q_length."""
        args = _abi.kvq_decode_args(batch=batch, max_length=max_length, q_length=q_length, q_heads=q_heads,
                                    split_tokens=split_tokens, place=_abi.kvq_place(layer, first_head, kv_heads))
        size = ctypes.c_size_t()
        self._call(C.kvq_workspace_size, args, ctypes.byref(size))
        return size.value

    def workspace(self, tensor, *, stream=None):
        """Makes a uint8 tensor a Workspace, and clears its faults."""
        workspace = Workspace(tensor)
        view = workspace.view
        self._call(C.kvq_workspace_init, view.data, view.nbytes(), self._execution(stream, [view]))
        return workspace

    def _execution(self, stream, views, host_too=()):
        check_devices(self.target, views, host_too)
        return _abi.kvq_execution(stream=stream_address(stream, views) if self.target == Target.CUDA else None)

    # ---- Tokens

    def append(self, k, v, slots, pool, *, reserved_slot=None, stream=None):
        """Quantizes tokens into records: k [tokens, KV heads, key dim] after RoPE, v [tokens, KV heads, value dim],
        slots [tokens] int32 or int64, page id * page_tokens + position, negative: skipped."""
        self._tokens(C.kvq_append, k, v, slots, pool, reserved_slot, 0, stream)

    def append_window(self, k, v, slots, pool, *, reserved_slot=None, stream=None):
        """Writes tokens as high-precision rows into a window pool."""
        self._tokens(C.kvq_append_window, k, v, slots, pool, reserved_slot, 0, stream)

    def dequantize(self, k, v, slots, pool, *, stored_basis=False, reserved_slot=None, stream=None):
        """Writes the rows that records stand for into k and v, in their own element type or in float32; with
        `stored_basis` neither rotated back nor with means added."""
        flags = _abi.STORED_BASIS if stored_basis else 0
        self._tokens(C.kvq_dequantize, k, v, slots, pool, reserved_slot, flags, stream)

    def _tokens(self, function, k, v, slots, pool, reserved_slot, flags, stream):
        geometry = self.geometry(pool.layer)
        k, v, slots = View("k", k), View("v", v), View("slots", slots)
        key_types, value_types = ELEMENTS[geometry.key_rows], ELEMENTS[geometry.value_rows]
        if function is C.kvq_dequantize and k.dtype == "float32":
            key_types = value_types = FLOAT32
            flags |= _abi.ROWS_F32
        tokens = k.shape[0] if k.shape else 0
        k.expect(key_types, tokens, pool.kv_heads, geometry.key_dim).dense_rows()
        v.expect(value_types, tokens, pool.kv_heads, geometry.value_dim).dense_rows()
        slots.expect(INT64 + INT32, tokens, contiguous=True)
        if slots.dtype == "int32":
            flags |= _abi.SLOTS_32
        if reserved_slot is not None:
            flags |= _abi.RESERVED_SLOT
        self._call(function, _abi.kvq_token_args(
            k=k.data, v=v.data, k_token_stride=k.strides[0], k_head_stride=k.strides[1], v_token_stride=v.strides[0],
            v_head_stride=v.strides[1], slots=slots.data, tokens=tokens, reserved_slot=reserved_slot or 0,
            pool=pool.struct, place=pool.place, flags=flags,
            execution=self._execution(stream, [k, v, slots, pool.view])))

    def commit(self, lengths, before, after, *, step, layer=0, stream=None):
        """How many tokens leave the window: after = max(before, (lengths - sink - recent) rounded down to `step`), all
        int32 [batch]; `lengths` are committed tokens, `before` and `after` quantized ones."""
        views = [View(name, tensor) for name, tensor in (("lengths", lengths), ("before", before), ("after", after))]
        batch = views[0].expect(INT32, None, contiguous=True).shape[0]
        for view in views[1:]:
            view.expect(INT32, batch, contiguous=True)
        members = {"lengths": views[0].data, "from": views[1].data, "to": views[2].data}
        self._call(C.kvq_commit, _abi.kvq_commit_args(batch=batch, step=step, layer=layer,
                                                      execution=self._execution(stream, views), **members))

    def demote(self, windows, after, pool, table, *, most, stream=None):
        """Quantizes the oldest rows of the recent ring into records of `pool`: tokens windows.quantized_lengths ..
        after of each sequence, `most` of one at the most."""
        after = View("after", after).expect(INT32, windows.batch, contiguous=True)
        table = PageTable.of(table, windows.batch)
        execution = self._execution(stream, [after, pool.view, *windows.views, *table.views])
        self._call(C.kvq_demote, _abi.kvq_demote_args(windows=windows.struct, to=after.data, pool=pool.struct,
                                                      table=table.struct, batch=windows.batch, most=most,
                                                      place=pool.place, execution=execution))

    # ---- Attention

    def decode(self, q, out, pool, table, lengths, *, max_length, workspace, lse=None, scale=0.0, planned=False,
               sinks=None, **step):
        """Attention over the cache: q [query tokens, query heads, key dim], out [query tokens, query heads, value dim]
        and, if given, lse [query tokens, query heads] float32, natural. `sinks`: learned sink logits [query heads]
        float32. `planned`: the workspace holds the plan of this step. `step`: what plan() takes, but for q_heads."""
        geometry = self.geometry(pool.layer)
        q, out, lengths = View("q", q), View("out", out), View("lengths", lengths)
        rows = ELEMENTS[geometry.query_rows]
        q.expect(rows, None, None, geometry.key_dim).dense_rows()
        tokens, heads = q.shape[:2]
        out.expect(rows, tokens, heads, geometry.value_dim).dense_rows()
        if step.get("q_indptr") is None:
            step["q_length"] = self._q_length(step.get("q_length"), tokens, lengths)
        args = {"q": q.data, "q_token_stride": q.strides[0], "q_head_stride": q.strides[1], "out": out.data,
                "out_token_stride": out.strides[0], "out_head_stride": out.strides[1], "scale": scale,
                "flags": _abi.DECODE_PLANNED if planned else 0}
        views = [q, out]
        if lse is not None:
            views.append(View("lse", lse).expect(FLOAT32, tokens, heads))
            args.update(lse=views[-1].data, lse_token_stride=views[-1].strides[0], lse_head_stride=views[-1].strides[1])
        if sinks is not None:
            views.append(View("sinks", sinks).expect(FLOAT32, heads, contiguous=True))
            args["sinks"] = views[-1].data
        self._attend(C.kvq_decode, args, views, pool, table, lengths, max_length, workspace, q_heads=heads, **step)

    def plan(self, pool, table, lengths, *, max_length, workspace, q_length=1, q_heads=0, q_indptr=None, windows=None,
             window=0, split_tokens=0, stream=None):
        """What all layers of a format share in a step, made once. `lengths` int32 [batch]: tokens in the cache, the new
        ones included; `max_length`: their bound; `q_length`: query tokens of each sequence, or with `q_indptr` int32
        [batch + 1] their bound; `windows`: a Windows; `window`: tokens that a query attends, 0: the library's own, -1:
        all; `split_tokens`: see kvq_decode_args."""
        self._attend(C.kvq_plan, {}, [], pool, table, View("lengths", lengths), max_length, workspace,
                     q_length=q_length, q_heads=q_heads, q_indptr=q_indptr, windows=windows, window=window,
                     split_tokens=split_tokens, stream=stream)

    @staticmethod
    def _q_length(q_length, tokens, lengths):
        """Query tokens of each sequence, where all have as many."""
        batch = lengths.shape[0] if lengths.shape else 0
        expected = q_length if q_length is not None else max(tokens // batch, 1) if batch else 1
        if expected * batch != tokens:
            raise ValueError(f"q: expected as many query tokens for each of {batch} sequences"
                             f"{f', {q_length}' if q_length is not None else ''}, got {tokens} in all")
        return expected

    def _attend(self, function, args, views, pool, table, lengths, max_length, workspace, *, q_length=1, q_heads=0,
                q_indptr=None, windows=None, window=0, split_tokens=0, stream=None):
        batch = lengths.expect(INT32, None, contiguous=True).shape[0]
        table = PageTable.of(table, batch)
        views = [*views, lengths, pool.view, workspace.view, *table.views]
        if q_indptr is not None:
            views.append(View("q_indptr", q_indptr).expect(INT32, batch + 1, contiguous=True))
            args["q_indptr"] = views[-1].data
        if windows is not None:
            if windows.batch != batch:
                raise ValueError(f"windows: expected those of {batch} sequences, got {windows.batch}")
            views += windows.views
            args["windows"] = windows.struct
        self._call(function, _abi.kvq_decode_args(
            q_length=q_length, q_heads=q_heads, pool=pool.struct, table=table.struct, lengths=lengths.data, batch=batch,
            max_length=max_length, window=window, split_tokens=split_tokens, place=pool.place,
            workspace=workspace.view.data, workspace_bytes=workspace.view.nbytes(),
            execution=self._execution(stream, views), **args))

    # ---- Moving pages

    def export_pages(self, pages, data, pool, *, stream=None):
        """Copies pages (ids, on the host) out of a pool into `data`, uint8, contiguous, at least
        [pages, KV heads, pool.used_bytes], on the device or the host. Returns the header to keep beside the bytes:
        bytes(header), and PageHeader.from_buffer_copy for the way back."""
        header = _abi.kvq_page_header()
        self._call(C.kvq_export, self._move(pages, data, pool, stream), header)
        return header

    def import_pages(self, pages, data, header, pool, *, stream=None):
        """Copies pages into a pool. Error with OTHER_FORMAT if they are of another record layout or method."""
        self._call(C.kvq_import, self._move(pages, data, pool, stream), header)

    def _move(self, pages, data, pool, stream):
        data = View("data", data)
        data.expect(BYTES, *[None] * len(data.shape), contiguous=True)
        ids = (ctypes.c_int32 * len(pages))(*pages)
        for page in ids:
            if not 0 <= page < pool.pages:
                raise ValueError(f"pages: expected ids below {pool.pages}, got {page}")
        execution = self._execution(stream, [data, pool.view], host_too=[data])
        args = _abi.kvq_move_args(pool=pool.struct, pages=ctypes.addressof(ids), count=len(ids), data=data.data,
                                  bytes=data.nbytes(), place=pool.place, execution=execution)
        args.ids = ids  # lives as long as its address
        return args

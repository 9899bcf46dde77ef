# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of the Python package on the CPU, with NumPy's tensors."""

import pickle
import unittest

import numpy
from runtime_cases import (DIM, KV_HEADS, PAGE, Q_HEADS, TOKENS, Cache, WithLibrary, attention, kvq, memory, wide)
from kvq_runtime import _tensors


class Queries(WithLibrary):
    def test_tell_what_the_library_is(self):
        geometry = self.library.geometry(0)
        self.assertEqual((geometry.q_heads, geometry.kv_heads, geometry.key_dim), (Q_HEADS, KV_HEADS, DIM))
        self.assertEqual(kvq.Element(geometry.key_rows), kvq.Element.BF16)
        self.assertEqual((self.library.model().layers, self.library.format(1)), (2, 0))
        page = self.library.page(page_tokens=16)
        self.assertEqual(page.record_bytes * 4, self.library.page(page_tokens=64).record_bytes)
        self.assertEqual(self.library.method(0)["page"], PAGE)
        self.assertIn("kernels", str(self.library.manifest()))
        self.assertIn("key_dim=64", repr(geometry))

    def test_supports_gives_all_reasons(self):
        self.assertEqual(self.library.supports(q_heads=9, kv_heads=3, q_length=16, dequantize=True), [])
        reasons = self.library.supports(key_dim=128, page_tokens=50, demote=True)
        self.assertEqual({reason.code for reason in reasons},
                         {kvq.ReasonCode.HEAD_DIM, kvq.ReasonCode.PAGE, kvq.ReasonCode.WINDOWS})
        self.assertIn((kvq.ReasonCode.HEAD_DIM, 0, "key_dim: the library has 64, asked for 128"), reasons)
        with self.assertRaisesRegex(TypeError, "unknown heads; expected some of .*q_heads"):
            self.library.supports(heads=9)

    def test_errors_hold_a_status(self):
        with self.assertRaises(kvq.Error) as caught:
            self.library.geometry(2)
        self.assertIs(caught.exception.status, kvq.Status.INVALID_ARGUMENT)
        with self.assertRaises(kvq.Error) as caught:
            kvq.open_memory(b"no library")
        self.assertIs(caught.exception.status, kvq.Status.INVALID_FILE)
        with self.assertRaises(kvq.Error) as caught:
            kvq.open(self.path, target="cuda")
        self.assertIs(caught.exception.status, kvq.Status.UNSUPPORTED)
        with self.assertRaisesRegex(ValueError, "expected 'cpu' or 'cuda', got 'gpu'"):
            kvq.open(self.path, target="gpu")

    def test_a_closed_library_is_refused(self):
        with kvq.open_memory(self.path.read_bytes()) as library:
            self.assertEqual(library.geometry().kv_heads, KV_HEADS)
        for call in (library.model, library.manifest, library.supports):
            with self.assertRaisesRegex(ValueError, "closed"):
                call()
        library.close()

    def test_host_code_is_asked_for(self):
        library = kvq.open(self.path)
        with self.assertRaises(kvq.Error) as caught:
            Cache(library).decode(library, [TOKENS])
        self.assertIs(caught.exception.status, kvq.Status.UNSUPPORTED)


class Attention(WithLibrary):
    def rows(self, cache):
        """What the records hold, [TOKENS, KV_HEADS, DIM] of float32."""
        k, v = (numpy.zeros((TOKENS, KV_HEADS, DIM), numpy.float32) for _ in range(2))
        self.library.dequantize(k, v, cache.slots, cache.pool)
        return k.astype(numpy.float64), v.astype(numpy.float64)

    def test_equals_float64_over_what_the_records_hold(self):
        for split_heads in (False, True):
            cache = Cache(self.library, split_heads=split_heads)
            self.library.append(cache.k, cache.v, cache.slots, cache.pool)
            k, v = self.rows(cache)
            self.assertLess(numpy.abs(k - wide(cache.k)).max(), 3)
            out, lse = cache.decode(self.library, [TOKENS, 1, 77])
            for row, length in enumerate((TOKENS, 1, 77)):
                expected, sums = attention(wide(cache.q[0]), k, v, length)
                error = numpy.linalg.norm(wide(out[row]) - expected) / numpy.linalg.norm(expected)
                self.assertLess(error, 2.0 ** -8)
                self.assertLess(numpy.abs(lse[row] - sums).max(), 1e-4)

    def test_strides_of_tensors_are_taken(self):
        cache, other = Cache(self.library), Cache(self.library)
        self.library.append(cache.k, cache.v, cache.slots, cache.pool)
        # Heads first, with gaps between rows; slots of 32 bits; token by token.
        wider = numpy.zeros((KV_HEADS, TOKENS, 2 * DIM), numpy.uint16)
        wider[:, :, :DIM] = cache.k.transpose(1, 0, 2)
        k = wider.transpose(1, 0, 2)[:, :, :DIM]
        for t in range(TOKENS):
            self.library.append(k[t:t + 1], cache.v[t:t + 1], cache.slots[t:t + 1].astype(numpy.int32), other.pool)
        numpy.testing.assert_array_equal(cache.pool.view.tensor, other.pool.view.tensor)

    def test_strides_of_an_axis_of_one_are_free(self):
        cache, other = Cache(self.library), Cache(self.library)
        odd = numpy.lib.stride_tricks.as_strided(cache.k, (1, KV_HEADS, DIM), (2, 2 * DIM, 2))
        self.library.append(odd, cache.v[:1], cache.slots[:1], cache.pool)
        self.library.append(cache.k[:1], cache.v[:1], cache.slots[:1], other.pool)
        numpy.testing.assert_array_equal(cache.pool.view.tensor, other.pool.view.tensor)

    def test_planned_and_ragged_calls_give_the_same(self):
        cache = Cache(self.library)
        self.library.append(cache.k, cache.v, cache.slots, cache.pool)
        expected, sums = cache.decode(self.library, [TOKENS, 0, 40])
        self.assertTrue((expected[1] == 0).all() and numpy.isneginf(sums[1]).all())
        out, lse = numpy.full_like(expected, 7), numpy.zeros_like(sums)
        lengths, q = numpy.array([TOKENS, 0, 40], numpy.int32), numpy.repeat(cache.q[:1], 3, 0)
        table = kvq.PageTable(cache.table(3).reshape(-1), indptr=numpy.array([0, 3, 6, 9], numpy.int32), columns=3)
        workspace = self.library.workspace(memory(self.library.workspace_size(batch=3, max_length=TOKENS, q_length=4)))
        indptr = numpy.array([0, 1, 2, 3], numpy.int32)
        step = {"max_length": TOKENS, "workspace": workspace, "q_indptr": indptr, "q_length": 4}
        self.library.plan(cache.pool, table, lengths, q_heads=Q_HEADS, **step)
        self.library.decode(q, out, cache.pool, table, lengths, lse=lse, planned=True, **step)
        numpy.testing.assert_array_equal(out, expected)
        numpy.testing.assert_array_equal(lse, sums)

    def test_learned_sinks_and_scale(self):
        cache = Cache(self.library)
        self.library.append(cache.k, cache.v, cache.slots, cache.pool)
        plain, sums = cache.decode(self.library, [TOKENS], scale=0.25)
        out, lse = cache.decode(self.library, [TOKENS], scale=0.25, sinks=numpy.full(Q_HEADS, 5, numpy.float32))
        numpy.testing.assert_allclose(lse, numpy.logaddexp(sums, 5), rtol=1e-5)
        numpy.testing.assert_allclose(wide(out), wide(plain) * numpy.exp(sums - lse)[..., None], rtol=2.0 ** -7)

    def test_skipped_tokens_write_nothing(self):
        cache = Cache(self.library)
        before = cache.pool.view.tensor.copy()
        self.library.append(cache.k, cache.v, numpy.full(TOKENS, -1), cache.pool)
        self.library.append(cache.k[:1], cache.v[:1], numpy.zeros(1, numpy.int64), cache.pool, reserved_slot=0)
        numpy.testing.assert_array_equal(cache.pool.view.tensor, before)
        self.library.append(cache.k[:1], cache.v[:1], numpy.zeros(1, numpy.int64), cache.pool)
        self.assertTrue((cache.pool.view.tensor != before).any())

    def test_moved_pages_give_the_same(self):
        cache, other = Cache(self.library), Cache(self.library)
        self.library.append(cache.k, cache.v, cache.slots, cache.pool)
        data = numpy.zeros((3, KV_HEADS, cache.pool.used_bytes), numpy.uint8)
        header = self.library.export_pages(cache.ids.tolist(), data, cache.pool)
        header = kvq.PageHeader.from_buffer_copy(pickle.loads(pickle.dumps(bytes(header))))
        other.ids = numpy.array([1, 0, 2], numpy.int32)
        self.library.import_pages([1, 0, 2], data, header, other.pool)
        numpy.testing.assert_array_equal(other.decode(self.library, [TOKENS])[0],
                                         cache.decode(self.library, [TOKENS])[0])
        header.record_id[0] ^= 1
        with self.assertRaises(kvq.Error) as caught:
            self.library.import_pages([1, 0, 2], data, header, other.pool)
        self.assertIs(caught.exception.status, kvq.Status.OTHER_FORMAT)
        with self.assertRaisesRegex(ValueError, "pages: expected ids below 3, got 3"):
            self.library.export_pages([3], data, cache.pool)


class WindowsTest(WithLibrary):
    name, edits = "int2", (("page = 64}", "page = 64, sink = 4, recent = 32}"),)

    def test_tokens_leave_the_ring_for_records(self):
        """All tokens but those of the windows are demoted; their records equal appended ones, and attention sees each
        token in one place."""
        library, appended, cache = self.library, Cache(self.library), Cache(self.library)
        sink, recent, ring = 4, 32, 192
        library.append(cache.k[sink:], cache.v[sink:], cache.slots[:TOKENS - sink], appended.pool)
        page_tokens, row_bytes = 64, library.page(page_tokens=64).window_bytes
        pool = library.window_pool(memory(4, KV_HEADS, row_bytes), page_tokens=page_tokens)
        table = numpy.array([[1, 2, 3]], numpy.int32)  # page 0 is the sink's
        slots = numpy.array([t if t < sink else 64 + (t - sink) % ring for t in range(TOKENS)], numpy.int64)
        library.append_window(cache.k, cache.v, slots, pool)
        before, after = numpy.zeros(1, numpy.int32), numpy.zeros(1, numpy.int32)
        library.commit(numpy.array([TOKENS], numpy.int32), before, after, step=8)
        self.assertEqual(after[0], (TOKENS - sink - recent) // 8 * 8)
        sink_table = numpy.array([[0]], numpy.int32)
        library.demote(kvq.Windows(pool, table, before, sink=sink_table), after, cache.pool, cache.table(), most=TOKENS)
        k, v = (numpy.zeros((TOKENS, KV_HEADS, DIM), numpy.float32) for _ in range(2))
        library.dequantize(k, v, cache.slots[:TOKENS], appended.pool)
        rows, other = numpy.zeros_like(k), numpy.zeros_like(v)
        library.dequantize(rows, other, cache.slots[:TOKENS], cache.pool)
        moved = int(after[0])
        numpy.testing.assert_array_equal(rows[:moved], k[:moved])
        numpy.testing.assert_array_equal(other[:moved], v[:moved])
        windows = kvq.Windows(pool, table, after, sink=sink_table)
        out, lse = cache.decode(library, [TOKENS], windows=windows)
        keys, values = wide(cache.k), wide(cache.v)
        keys[sink:sink + moved], values[sink:sink + moved] = k[:moved], v[:moved]
        expected, sums = attention(wide(cache.q[0]), keys, values, TOKENS)
        self.assertLess(numpy.linalg.norm(wide(out[0]) - expected) / numpy.linalg.norm(expected), 2.0 ** -8)
        self.assertLess(numpy.abs(lse[0] - sums).max(), 1e-4)


class LearnedSinks(WithLibrary):
    """Of the library's own, one for each layer and query head."""

    logits = [[round(0.5 * layer + 0.25 * head - 1, 2) for head in range(Q_HEADS)] for layer in range(2)]
    more = f"""
kvq.constants @model {{
  kvq.constant @sinks : tensor<2x{Q_HEADS}x1xf32> =
    dense<{[[[float(x)] for x in layer] for layer in logits]}> : tensor<2x{Q_HEADS}x1xf32>
}}
func.func @decode(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {{
  %o = kvq.attention %q, @cache scale(0.125) causal sinks(@model::@sinks)
    : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}}
"""

    def test_are_those_of_the_layer_and_the_heads(self):
        self.assertEqual(self.library.geometry().sinks, 1)
        for layer in range(2):
            for first, heads in ((0, KV_HEADS), (1, 2)):
                cache = Cache(self.library)
                cache.pool = self.library.pool(memory(3, heads, self.library.page().head_stride), layer=layer,
                                               first_head=first)
                self.library.append(cache.k[:, :heads], cache.v[:, :heads], cache.slots, cache.pool)
                ratio = Q_HEADS // KV_HEADS
                cache.q = cache.q[:, :heads * ratio]
                own = self.decode(cache)
                logits = numpy.array(self.logits[layer][first * ratio:(first + heads) * ratio], numpy.float32)
                for got, given in zip(own, self.decode(cache, sinks=logits)):
                    numpy.testing.assert_array_equal(got, given)
                others = self.decode(cache, sinks=logits + 1)
                self.assertTrue((others[1] > own[1]).all())

    def decode(self, cache, **options):
        out, lse = numpy.zeros_like(cache.q[:1]), numpy.zeros((1, cache.q.shape[1]), numpy.float32)
        workspace = self.library.workspace(memory(self.library.workspace_size(batch=1, max_length=TOKENS)))
        self.library.decode(cache.q[:1], out, cache.pool, cache.table(), numpy.array([TOKENS], numpy.int32), lse=lse,
                            max_length=TOKENS, workspace=workspace, **options)
        return out, lse


class Refusals(WithLibrary):
    """A tensor of another shape, dtype or place is refused with what was expected and what was got."""

    def setUp(self):
        super().setUp()
        self.cache = Cache(self.library)

    def refused(self, text, call, *arguments, **options):
        with self.assertRaisesRegex(ValueError, text):
            call(*arguments, **options)

    def test_rows_and_slots(self):
        cache, append = self.cache, self.library.append
        self.refused(r"k: expected bfloat16 of shape \[150, 3, 64\], got uint16 of shape \[150, 64, 3\]", append,
                     cache.k.transpose(0, 2, 1), cache.v, cache.slots, cache.pool)
        self.refused("v: expected bfloat16 .* got float32", append, cache.k, wide(cache.v).astype(numpy.float32),
                     cache.slots, cache.pool)
        self.refused(r"slots: expected int64 of shape \[150\], got int64 of shape \[149\]", append, cache.k, cache.v,
                     cache.slots[1:], cache.pool)
        self.refused("k: expected a contiguous last axis, got 4 bytes", append,
                     numpy.zeros((TOKENS, KV_HEADS, 2 * DIM), numpy.uint16)[:, :, ::2], cache.v, cache.slots, cache.pool)
        with self.assertRaisesRegex(TypeError, "k: expected a tensor with __dlpack__, got list"):
            append([1], cache.v, cache.slots, cache.pool)
        locked = cache.k.copy()
        locked.flags.writeable = False
        self.refused("k: cannot be seen through DLPack", append, locked, cache.v, cache.slots, cache.pool)

    def test_rows_that_lie_on_each_other(self):
        cache = self.cache
        self.library.append(cache.k, cache.v, cache.slots, cache.pool)
        for shared in range(2):
            rows = [numpy.zeros((TOKENS, KV_HEADS, DIM), numpy.float32) for _ in range(2)]
            rows[shared] = numpy.lib.stride_tricks.as_strided(rows[shared], strides=(16, 4 * DIM, 4))
            with self.assertRaisesRegex(kvq.Error, f"{'kv'[shared]}_token_stride: expected at least 256 bytes, got 16"):
                self.library.dequantize(*rows, cache.slots, cache.pool)

    def test_pools(self):
        page = self.library.page()
        self.refused("pool: a page of 64 tokens and 3 KV heads has too few bytes", self.library.pool,
                     memory(2, page.page_bytes - 128))
        self.refused("pool: expected uint8", self.library.pool, numpy.zeros((2, page.page_bytes), numpy.int64))
        with self.assertRaises(kvq.Error):
            self.library.pool(memory(2, page.page_bytes), page_tokens=50)

    def test_decode(self):
        cache, library = self.cache, self.library
        workspace = library.workspace(memory(library.workspace_size(batch=2, max_length=TOKENS)))
        lengths, out = numpy.array([TOKENS, 5], numpy.int32), numpy.zeros_like(cache.q)
        options = {"max_length": TOKENS, "workspace": workspace}
        self.refused(r"table: expected rows of 2 sequences, got 1", library.decode, cache.q, out, cache.pool,
                     cache.table(), lengths, **options)
        self.refused("q: expected as many query tokens for each of 2 sequences, 2, got 2 in all", library.decode,
                     cache.q, out, cache.pool, cache.table(2), lengths, q_length=2, **options)
        self.refused(r"out: expected bfloat16 of shape \[2, 9, 64\]", library.decode, cache.q, out[:, :3], cache.pool,
                     cache.table(2), lengths, **options)
        self.refused("expected `columns`", kvq.PageTable, cache.ids, indptr=lengths)
        with self.assertRaises(kvq.Error) as caught:
            library.decode(cache.q, out, cache.pool, cache.table(2), lengths, split_tokens=7, **options)
        self.assertIs(caught.exception.status, kvq.Status.INVALID_ARGUMENT)

    def test_memory_elsewhere(self):
        view = _tensors.View("k", self.cache.k)
        view.device = (2, 0)
        with self.assertRaisesRegex(ValueError, r"k: expected host memory, got a tensor of DLPack device \(2, 0\)"):
            _tensors.check_devices(kvq.Target.CPU, [view])
        other = _tensors.View("v", self.cache.v)
        with self.assertRaisesRegex(ValueError, "v: expected CUDA memory"):
            _tensors.check_devices(kvq.Target.CUDA, [view, other])
        _tensors.check_devices(kvq.Target.CUDA, [view, other], host_too=[other])
        other.device = (2, 1)
        with self.assertRaisesRegex(ValueError, r"those of CUDA devices \[0, 1\]"):
            _tensors.check_devices(kvq.Target.CUDA, [view, other])

    def test_streams(self):
        class Stream:
            cuda_stream = 17

        class Protocol:
            def __cuda_stream__(self):
                return 0, 18

        self.assertEqual([_tensors.stream_address(s, []) for s in (5, None, Stream(), Protocol())], [5, 0, 17, 18])
        with self.assertRaisesRegex(TypeError, "stream: expected a number or an object"):
            _tensors.stream_address("0", [])


if __name__ == "__main__":
    unittest.main()

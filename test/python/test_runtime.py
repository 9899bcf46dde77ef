# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python package on the CPU, with NumPy's tensors; rows of bf16 are the uint16 that hold their bits."""

import ctypes
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bin"
sys.path[:0] = [str(ROOT / "build/python"), str(ROOT / "tools/scripts")]
import generate_python_abi  # noqa: E402
import kvq_runtime as kvq  # noqa: E402
from kvq_runtime import _abi, _tensors  # noqa: E402

TRACE = ROOT / "test/data/smollm2-135m.trace.safetensors"
TOKENS, KV_HEADS, Q_HEADS, DIM, PAGE = 150, 3, 9, 64, 64
WINDOWED = (("page = 64}", "page = 64, sink = 4, recent = 32}"),)


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


class Abi(unittest.TestCase):
    def test_is_generated_from_the_header(self):
        self.assertEqual(generate_python_abi.OUTPUT.read_text(),
                         generate_python_abi.generate(generate_python_abi.HEADER.read_text()),
                         "run tools/scripts/generate_python_abi.py")

    def test_structs_lie_in_memory_as_those_of_c(self):
        structs = [s for s in vars(_abi).values() if isinstance(s, type) and issubclass(s, _abi.Struct)]
        structs.remove(_abi.Struct)
        self.assertGreater(len(structs), 15)
        lines, expected = [], []
        for struct in structs:
            lines.append(f'printf("%zu\\n", sizeof({struct.__name__}));')
            expected.append(ctypes.sizeof(struct))
            for member, _ in struct._fields_:
                lines.append(f'printf("%zu\\n", offsetof({struct.__name__}, {member}));')
                expected.append(getattr(struct, member).offset)
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "offsets.c"), pathlib.Path(folder, "offsets")
            source.write_text("#include <kvq/runtime.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "}\n")
            subprocess.run(["cc", "-I", ROOT / "runtime/include", source, "-o", program], check=True)
            got = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual([int(number) for number in got], expected)

    def test_numbers_have_their_names(self):
        self.assertEqual(kvq.Status.OTHER_FORMAT, 9)
        self.assertEqual(kvq.ReasonCode.KERNEL, 12)
        self.assertEqual(kvq.MAX_Q_LENGTH, 16)


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
    name, edits = "int2", WINDOWED

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


class OnADriverWithoutAGpu(WithLibrary):
    """test/gpu/fake_driver.c logs what is launched; its decode writes zeros."""

    targets = "sm_90a"
    program = """
import sys
import numpy
import test_runtime as common
from test_runtime import kvq

class OnDevice:
    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream):
        assert stream == -1, "the package makes no framework wait"
        capsule = self.array.__dlpack__()
        raw = common._tensors._Tensor.from_address(common._tensors._capsule_pointer(capsule, b"dltensor"))
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
"""

    def test_calls_launch_kernels(self):
        log = pathlib.Path(self.folder.name, "launches")
        done = subprocess.run([sys.executable, "-c", self.program, self.path], capture_output=True, text=True,
                              cwd=ROOT / "test/python", env={"KVQ_FAKE_DRIVER_LOG": str(log),
                                                             "LD_LIBRARY_PATH": str(ROOT / "build/test/gpu/fake")})
        self.assertEqual(done.stdout, "k: expected CUDA memory, got a tensor of DLPack device (1, 0)\n", done.stderr)
        self.assertEqual([name.rstrip("0123456789") for name in log.read_text().split()],
                         ["kvq_append", *["kvq_plan", "kvq_prepare", "kvq_decode"] * 2])

    def setUp(self):
        """The library opens on the driver alone."""


class Example(WithLibrary):
    name = "int2"

    def test_prints_what_the_guide_says(self):
        done = subprocess.run([sys.executable, ROOT / "docs/examples/python/attend.py", self.path], capture_output=True,
                              text=True, env={"PYTHONPATH": str(ROOT / "build/python")})
        printed = (done.stdout + done.stderr).splitlines()[-1]
        self.assertEqual(printed, "attention over 100 tokens: -1.00 1.00 1.00 -1.00 ...")
        self.assertIn(printed, (ROOT / "docs/python.md").read_text())


class SameBits(WithLibrary):
    def test_by_kvq_run_a_c_program_and_python(self):
        program = pathlib.Path(self.folder.name, "attend_rows")
        subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I", ROOT / "runtime/include",
                        ROOT / "docs/examples/c/attend_rows.c", "-L", ROOT / "build/lib", "-lkvq",
                        f"-Wl,-rpath,{ROOT / 'build/lib'}", "-o", program], check=True)
        done = subprocess.run([sys.executable, ROOT / "tools/scripts/same_bits.py", self.path, "--trace", TRACE,
                               "--kvq-run", BIN / "kvq-run", "--attend-rows", program], capture_output=True, text=True,
                              env={"PYTHONPATH": str(ROOT / "build/python"), "PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("the same by kvq-run, C, Python"), 6, done.stdout)


if __name__ == "__main__":
    unittest.main()

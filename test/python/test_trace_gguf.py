# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of tools/scripts/trace_gguf.py on a synthetic model, and of the committed trace.

The synthetic weights are made in the Hugging Face order and permuted here into the order of a GGUF; the reference is a
model in plain float64 loops over the unpermuted weights. Nothing here needs a real model.
"""
import contextlib
import hashlib
import io
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "scripts"))

import gguf_llama  # noqa: E402
import trace_gguf  # noqa: E402

FIXTURE = ROOT / "test" / "data" / "smollm2-135m.trace.safetensors"
LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, DIM = 2, 40, 24, 6, 2, 32
THETA, EPS, TOKENS, QUERIES = 5000.0, 1e-5, 20, 5
MERGES = ["t h", "th e", "Ġ the", "e e", "Ċ Ċ"]
TEXT = "the bee 12 sees the tree, and  they'll see naïve 東\n\nthe end"


def make_weights(seed=7):
    """Random float32 weights by GGUF name, [out, in], rows of q and k in the Hugging Face order; large enough that
    attention is far from uniform."""
    rng = np.random.default_rng(seed)
    shapes = {"attn_norm": (HIDDEN,), "attn_q": (HEADS * DIM, HIDDEN), "attn_k": (KV_HEADS * DIM, HIDDEN),
              "attn_v": (KV_HEADS * DIM, HIDDEN), "attn_output": (HIDDEN, HEADS * DIM), "ffn_norm": (HIDDEN,),
              "ffn_gate": (FFN, HIDDEN), "ffn_up": (FFN, HIDDEN), "ffn_down": (HIDDEN, FFN)}
    names = {f"blk.{i}.{name}.weight": shape for i in range(LAYERS) for name, shape in shapes.items()}
    names |= {"token_embd.weight": (256 + len(MERGES), HIDDEN), "output_norm.weight": (HIDDEN,)}
    return {name: (rng.standard_normal(shape) * 0.2 + (1.0 if len(shape) == 1 else 0.0)).astype(np.float32)
            for name, shape in names.items()}


def permuted(weight, heads):
    """Hugging Face rows to GGUF rows: row s * D/2 + j of a head goes to row 2j + s."""
    return weight[[head * DIM + s * (DIM // 2) + j for head in range(heads) for j in range(DIM // 2) for s in range(2)]]


def write_gguf(path, weights, architecture="llama", pre="smollm", skip=(), change=lambda writer: None):
    """Writes the toy model; the keyword arguments make the variants that must be refused."""
    writer = gguf.GGUFWriter(str(path), architecture)
    vocabulary = gguf_llama.byte_symbols() + [merge.replace(" ", "") for merge in MERGES]
    for key, value in {"name": "toy", "license": "cc0-1.0", "block_count": LAYERS, "context_length": 64,
                       "embedding_length": HIDDEN, "feed_forward_length": FFN, "head_count": HEADS,
                       "head_count_kv": KV_HEADS, "key_length": DIM, "rope_freq_base": THETA,
                       "layer_norm_rms_eps": EPS, "tokenizer_model": "gpt2", "tokenizer_pre": pre,
                       "token_list": vocabulary, "token_merges": MERGES}.items():
        getattr(writer, "add_" + key)(value)
    change(writer)
    for name, weight in weights.items():
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(name.split(".")[-2])
        if name not in skip:
            writer.add_tensor(name, permuted(weight, heads) if heads else weight)
    finish(writer)


def finish(writer):
    """Writes the file of a GGUF writer."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def matvec(matrix, vector):
    """matrix [out][in] times vector [in], by loops."""
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def norm(vector, weight):
    """RMSNorm by loops."""
    root = math.sqrt(sum(value * value for value in vector) / len(vector) + EPS)
    return [value / root * w for value, w in zip(vector, weight)]


def rotated(flat, position):
    """Splits flat [H * D] into heads and rotates the pair (j, j + D/2) by position * theta^(-2j/D)."""
    heads = [flat[i:i + DIM] for i in range(0, len(flat), DIM)]
    for head in heads:
        for j in range(DIM // 2):
            angle = position / THETA ** (2 * j / DIM)
            a, b = head[j], head[j + DIM // 2]
            head[j] = a * math.cos(angle) - b * math.sin(angle)
            head[j + DIM // 2] = a * math.sin(angle) + b * math.cos(angle)
    return heads


def attend(q, k, v, position):
    """One query token q [Hq][D] over tokens 0..position of k, v [T][Hkv][D]; concatenated heads, [Hq * D]."""
    out = []
    for head, query in enumerate(q):
        kv_head = head // (len(q) // len(k[0]))
        scores = matvec([k[t][kv_head] for t in range(position + 1)], query)
        weights = [math.exp(score / math.sqrt(len(query))) for score in scores]
        for channel in range(len(query)):
            out.append(sum(weight * v[t][kv_head][channel] for t, weight in enumerate(weights)) / sum(weights))
    return out


def reference_layer(weights, layer, xs):
    """One block by loops: dict of q, k, v, attn, mlp, one entry a token."""
    w = {name: weights[f"blk.{layer}.{name}.weight"].astype(float).tolist() for name in gguf_llama.LAYER_TENSORS}
    out = {"q": [], "k": [], "v": [], "attn": [], "mlp": []}
    for t, x in enumerate(xs):
        h = norm(x, w["attn_norm"])
        out["q"].append(rotated(matvec(w["attn_q"], h), t))
        out["k"].append(rotated(matvec(w["attn_k"], h), t))
        flat = matvec(w["attn_v"], h)
        out["v"].append([flat[i:i + DIM] for i in range(0, len(flat), DIM)])
        out["attn"].append(matvec(w["attn_output"], attend(out["q"][t], out["k"], out["v"], t)))
        g = norm([a + b for a, b in zip(x, out["attn"][t])], w["ffn_norm"])
        gate, up = matvec(w["ffn_gate"], g), matvec(w["ffn_up"], g)
        out["mlp"].append(matvec(w["ffn_down"], [a / (1 + math.exp(-a)) * b for a, b in zip(gate, up)]))
    return out


def reference_model(weights, ids):
    """All layers by loops, and the mean next-token loss in nats."""
    embedding = weights["token_embd.weight"].astype(float).tolist()
    xs, layers = [embedding[index] for index in ids], []
    for layer in range(LAYERS):
        layers.append(reference_layer(weights, layer, xs))
        xs = [[a + b + c for a, b, c in zip(x, layers[-1]["attn"][t], layers[-1]["mlp"][t])] for t, x in enumerate(xs)]
    losses = []
    for x, wanted in zip(xs, ids[1:]):
        logits = matvec(embedding, norm(x, weights["output_norm.weight"].astype(float).tolist()))
        losses.append(math.log(sum(math.exp(value) for value in logits)) - logits[wanted])
    return layers, sum(losses) / len(losses)


def read_safetensors(path):
    """Parses the file with the standard library: (kvq_trace document, tensors as float32, digest of the data section).
    Fails unless the tensors fill the data section in ascending order of their names, without holes."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    metadata = header.pop("__metadata__")
    assert list(metadata) == ["kvq_trace"], metadata
    tensors, end = {}, 0
    for name in sorted(header):
        assert header[name]["data_offsets"][0] == end, name
        first, end = header[name]["data_offsets"]
        bits = np.frombuffer(body[first:end], dtype="<u2").reshape(header[name]["shape"])
        tensors[name] = {"BF16": lambda b: (b.astype(np.uint32) << 16).view(np.float32),
                         "F16": lambda b: b.view(np.float16).astype(np.float32)}[header[name]["dtype"]](bits)
    assert end == len(body)
    return json.loads(metadata["kvq_trace"]), tensors, hashlib.sha256(body).hexdigest()


def run_main(*arguments):
    """Runs the script in this process: (exit status, stdout, stderr)."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = trace_gguf.main([str(argument) for argument in arguments])
    return status, out.getvalue(), err.getvalue()


class ToyModel(unittest.TestCase):
    """A folder with the toy model and its text."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.weights = make_weights()
        cls.gguf = cls.folder / "toy.gguf"
        write_gguf(cls.gguf, cls.weights)
        cls.text = cls.folder / "text.txt"
        cls.text.write_text(f"# Text-Id: toy-text\n# SPDX-License-Identifier: CC0-1.0\n\n{TEXT}\n", encoding="utf-8")
        cls.model = gguf_llama.Model(cls.gguf)
        cls.ids = gguf_llama.Tokenizer(cls.model).encode(TEXT + "\n")[:TOKENS]
        cls.reference, cls.loss = reference_model(cls.weights, cls.ids)

    def trace(self, name, *options):
        """Traces both layers to `name`; returns the path."""
        out = self.folder / name
        status, _, err = run_main(self.gguf, "--layers=1,0", "--tokens=20", "--queries=5", f"--text={self.text}",
                                  f"--out={out}", *options)
        self.assertEqual((status, err), (0, ""))
        return out

    def assert_rows_close(self, value, reference, tolerance, message=""):
        self.assertEqual(np.shape(value), np.shape(reference))
        self.assertLessEqual(trace_gguf.relative_error(np.asarray(value), np.asarray(reference)), tolerance, message)


class ForwardTest(ToyModel):
    def test_layers_equal_plain_loops(self):
        kept, _ = gguf_llama.forward(self.model, self.ids, {0, 1}, LAYERS)
        for index, expected in enumerate(self.reference):
            for name, value in expected.items():
                self.assert_rows_close(getattr(kept[index], name), value, 1e-4, f"layer {index} {name}")

    def test_loss_equals_plain_loops(self):
        _, x = gguf_llama.forward(self.model, self.ids, set(), LAYERS)
        self.assertAlmostEqual(gguf_llama.next_token_loss(self.model, self.ids, x, chunk=7), self.loss, places=4)

    def test_untied_output_is_used(self):
        path = self.folder / "untied.gguf"
        write_gguf(path, self.weights | {"output.weight": -self.weights["token_embd.weight"]})
        _, x = gguf_llama.forward(self.model, self.ids, set(), LAYERS)
        self.assertGreater(abs(gguf_llama.next_token_loss(gguf_llama.Model(path), self.ids, x) - self.loss), 0.1)

    def test_quantized_rows(self):
        path, q4_1 = self.folder / "q4.gguf", gguf.GGMLQuantizationType.Q4_1
        packed = quantize(np.linspace(-1, 1, 64 * 8, dtype=np.float32).reshape(8, 64), q4_1)
        writer = gguf.GGUFWriter(str(path), "llama")
        writer.add_tensor("w", packed, raw_dtype=q4_1)
        finish(writer)
        model = object.__new__(gguf_llama.Model)
        model.tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
        np.testing.assert_array_equal(model.weight("w", [3, 1]), dequantize(packed, q4_1)[[3, 1]])

    def test_check_layer_agrees_and_prints(self):
        status, out, err = run_main(self.gguf, "--check-layer=1", "--loss", "--tokens=20", "--queries=5",
                                    "--text", self.text)
        self.assertEqual((status, err), (0, ""))
        self.assertIn(f"loss {self.loss:.4f} nats a token over {TOKENS} tokens of 'toy-text'", out)
        self.assertRegex(out, r"layer 1 relative errors q \S+ k \S+ v \S+ attn \S+ mlp \S+\n")

    def test_check_layer_sees_a_missing_unpermutation(self):
        with mock.patch.object(gguf_llama, "unpermute", lambda weight, heads: weight):
            status, _, err = run_main(self.gguf, "--check-layer=1", "--tokens=20", "--queries=5", f"--text={self.text}")
        self.assertEqual(status, 1)
        self.assertRegex(err, "^trace_gguf: error: layer 1 differs from the plain loops by more than 0.0001\n$")


class TokenizerTest(ToyModel):
    def test_byte_symbols(self):
        symbols = gguf_llama.byte_symbols()
        self.assertEqual(len(set(symbols)), 256)
        known = {0x20: "Ġ", 0x0A: "Ċ", 0x41: "A", 0x00: "Ā", 0x7F: "ġ", 0xAD: "Ń", 0xFF: "ÿ"}
        self.assertEqual({byte: symbols[byte] for byte in known}, known)

    def test_merges_in_rank_order(self):
        tokenizer = gguf_llama.Tokenizer(self.model)
        spelled = [tokenizer.tokens[index] for index in tokenizer.encode("the tree thee 12eee\n\n")]
        self.assertEqual(spelled, ["the", "Ġ", "t", "r", "ee", "Ġthe", "e", "Ġ", "1", "2", "ee", "e", "ĊĊ"])

    def test_pieces(self):
        pieces = [piece for span in gguf_llama.DIGIT.split("It's 25%  of\tthem, they'll\n") for piece in
                  gguf_llama.PIECE.findall(span)]
        self.assertEqual(pieces, ["It", "'s", " ", "2", "5", "%", " ", " of", "\t", "them", ",", " they", "'ll", "\n"])

    def test_round_trip(self):
        tokenizer = gguf_llama.Tokenizer(self.model)
        for text in (TEXT, "", "\t \n", "½ x² 😀\u00a0end  ", trace_gguf.read_text(trace_gguf.DEFAULT_TEXT).body):
            self.assertEqual(tokenizer.decode(tokenizer.encode(text)), text)

    def test_begin_token_when_the_file_asks(self):
        write_gguf(self.folder / "bos.gguf", self.weights,
                   change=lambda writer: (writer.add_add_bos_token(True), writer.add_bos_token_id(9)))
        tokenizer = gguf_llama.Tokenizer(gguf_llama.Model(self.folder / "bos.gguf"))
        self.assertEqual((tokenizer.encode("the"), tokenizer.decode([9, 257])), ([9, 257], "the"))


class TraceTest(ToyModel):
    def test_tensors_are_the_layer_in_hugging_face_order(self):
        for dtype, tolerance in (("bf16", 2 ** -8), ("f16", 2 ** -10)):
            document, tensors, _ = read_safetensors(self.trace("order.safetensors", "--dtype", dtype))
            self.assertEqual((document["dtype"], len(tensors)), (dtype, 8))
            for index, expected in enumerate(self.reference):
                values = {key: expected[key] for key in ("k", "v")}
                values |= {"q": expected["q"][-QUERIES:], "wo": self.weights[f"blk.{index}.attn_output.weight"].T}
                for key, value in values.items():
                    self.assert_rows_close(tensors[f"layers.{index}.{key}"], value, tolerance, f"{dtype} {index} {key}")

    def test_attention_of_the_trace_is_the_layer_output(self):
        document, tensors, _ = read_safetensors(self.trace("attention.safetensors"))
        for index, expected in enumerate(self.reference):
            q, k, v, wo = (tensors[f"layers.{index}.{key}"].astype(float) for key in ("q", "k", "v", "wo"))

            right, wrong = (np.array([attend(q[j], k, v, document["q_start"] + shift + j) for j in range(QUERIES)]) @ wo
                            for shift in (0, -1))
            self.assert_rows_close(right, expected["attn"][-QUERIES:], 0.03)
            self.assertGreater(trace_gguf.relative_error(wrong, right), 0.1)

    def test_document(self):
        document, _, digest = read_safetensors(self.trace("document.safetensors"))
        self.assertEqual(document, {
            "version": 1, "q_start": TOKENS - QUERIES, "tokens": TOKENS, "layers": [0, 1], "dtype": "bf16",
            "model": {"name": "toy", "licence": "cc0-1.0", "file": "toy.gguf", "weight_types": ["F32"],
                      "sha256": hashlib.sha256(self.gguf.read_bytes()).hexdigest(), "layers": LAYERS,
                      "hidden": HIDDEN, "q_heads": HEADS, "kv_heads": KV_HEADS, "head_dim": DIM},
            "rope": {"theta": THETA, "dim": DIM, "style": "rotate_half", "first_position": 0},
            "text": {"id": "toy-text", "licence": "CC0-1.0",
                     "sha256": hashlib.sha256(f"{TEXT}\n".encode()).hexdigest()},
            "sha256": digest,
        })

    def test_same_input_same_bytes(self):
        self.assertEqual(self.trace("a.safetensors").read_bytes(), self.trace("b.safetensors").read_bytes())

    def test_bf16_rounds_to_nearest_even(self):
        values = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8 + 2**-20), 0.0], np.float32)
        bits = trace_gguf.to_16_bits(values, "bf16", "x")
        self.assertEqual([f"{b:04x}" for b in bits], ["3f80", "3f80", "3f82", "bf81", "0000"])

    def test_values_that_do_not_fit_are_refused(self):
        for value, dtype in ((np.nan, "bf16"), (np.inf, "bf16"), (3.4e38, "bf16"), (7e4, "f16")):
            with self.assertRaisesRegex(gguf_llama.Refusal, "not finite in " + dtype):
                trace_gguf.to_16_bits(np.array([value], np.float32), dtype, "x")


class RefusalTest(ToyModel):
    def assert_refused(self, message, model=None, **changed):
        """The run ends with status 1, one line on stderr that has `message`, and no file more than before."""
        options = {"layers": 1, "tokens": TOKENS, "queries": QUERIES, "text": self.text,
                   "out": self.folder / "refused.safetensors"} | changed
        before = sorted(self.folder.rglob("*"))
        status, out, err = run_main(model or self.gguf, *(f"--{key}={value}" for key, value in options.items()))
        self.assertEqual((status, out, err.count("\n")), (1, "", 1), err)
        self.assertRegex(err, "^trace_gguf: error: .*" + message)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def variant(self, name, weights=None, **options):
        write_gguf(self.folder / name, weights or self.weights, **options)
        return self.folder / name

    def test_files_that_are_not_models(self):
        (self.folder / "text.gguf").write_text("not a model")
        (self.folder / "empty.gguf").write_bytes(b"")
        for name in ("text.gguf", "empty.gguf"):
            self.assert_refused("is not a GGUF file", self.folder / name)
        self.assert_refused("No such file", self.folder / "absent.gguf")

    def test_every_truncation(self):
        data, path = self.gguf.read_bytes(), self.folder / "cut.gguf"
        for size in [*range(4, 400, 7), *range(400, len(data), 9973), len(data) - 40]:
            path.write_bytes(data[:size])
            self.assert_refused("damaged or unsupported", path)

    def test_wrong_models(self):
        self.assert_refused("architecture 'gpt2'; only 'llama'", self.variant("arch.gguf", architecture="gpt2"))
        self.assert_refused("pre-tokenizer 'llama-bpe'", self.variant("pre.gguf", pre="llama-bpe"))
        self.assert_refused("'blk.1.attn_k.weight' is missing", self.variant("less.gguf", skip=["blk.1.attn_k.weight"]))
        self.assert_refused("'rope_freqs.weight' is not supported",
                            self.variant("more.gguf", change=lambda writer: writer.add_tensor(
                                "rope_freqs.weight", np.ones(4, np.float32))))
        self.assert_refused("RoPE must cover all 32",
                            self.variant("dims.gguf", change=lambda writer: writer.add_rope_dimension_count(16)))
        self.assert_refused("RoPE scaling", self.variant(
            "scaled.gguf", change=lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)))
        wrong = self.weights | {"blk.0.ffn_up.weight": np.ones((FFN, HIDDEN - 1), np.float32)}
        self.assert_refused(r"ffn_up.weight' has shape \[24, 39\], expected \[24, 40\]", self.variant("w.gguf", wrong))

    def test_options(self):
        self.assert_refused("layer 2 is out of range: the model has layers 0..1", layers="0,2")
        self.assert_refused("layer -1 is out of range", layers="-1,0")
        self.assert_refused("--layers is 'x'", layers="x")
        self.assert_refused("'toy-text' is too short: .* 60 wanted", tokens=60)
        self.assert_refused("--tokens is 65, outside 2..64", tokens=65)
        self.assert_refused("--queries is 21, outside 1..20", queries=21)
        self.assert_refused("--queries is 0", queries=0)
        self.assert_refused("cannot read the text", text=self.folder / "absent.txt")
        self.assert_refused("is not a folder", out=self.folder / "absent" / "t.safetensors")
        (self.folder / "taken").mkdir()
        self.assert_refused("cannot write", out=self.folder / "taken")
        with mock.patch.object(gguf_llama.Tokenizer, "decode", lambda tokenizer, ids: "?"):
            self.assert_refused("does not round-trip")

    def test_exit_status_of_the_program(self):
        script = ROOT / "tools" / "scripts" / "trace_gguf.py"
        run = subprocess.run([sys.executable, script, self.text, "--loss"], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout, run.stderr),
                         (1, "", f"trace_gguf: error: {self.text} is not a GGUF file\n"))


class FixtureTest(unittest.TestCase):
    def test_committed_trace(self):
        self.assertLess(FIXTURE.stat().st_size, 4 << 20)
        document, tensors, digest = read_safetensors(FIXTURE)
        shapes = {"q": (256, 9, 64), "k": (1024, 3, 64), "v": (1024, 3, 64), "wo": (576, 576)}
        self.assertEqual({name: tensor.shape for name, tensor in tensors.items()},
                         {f"layers.{i}.{key}": shape for i in (4, 20) for key, shape in shapes.items()})
        for name, tensor in tensors.items():
            self.assertTrue(np.isfinite(tensor).all() and tensor.std() > 0.01, name)
        self.assertEqual(document["sha256"], digest)
        self.assertEqual({key: document[key] for key in ("version", "q_start", "tokens", "layers", "dtype")},
                         {"version": 1, "q_start": 768, "tokens": 1024, "layers": [4, 20], "dtype": "bf16"})
        self.assertEqual((document["model"]["licence"], document["rope"]["theta"]), ("apache-2.0", 100000.0))

        text = trace_gguf.read_text(trace_gguf.DEFAULT_TEXT)
        self.assertEqual(document["text"], {"id": "kvq-prose-1", "licence": "Apache-2.0 WITH LLVM-exception",
                                            "sha256": hashlib.sha256(text.body.encode()).hexdigest()})

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A Llama-family model read from a GGUF file: hyperparameters, weights, tokenizer and forward pass, in numpy.

Conventions, for the whole file:

  T, Tq      tokens, query rows            Hq, Hkv    query heads, KV heads (query head h reads KV head h // (Hq/Hkv))
  D          channels of a head            hidden     width of the residual stream

Arithmetic is float32, token positions start at 0, losses are in nats. Channels are in the Hugging Face order: RoPE
rotates channel j of a head with channel j + D/2 ("rotate half"). GGUF files of architecture `llama` store W_q and W_k
with the rows of each head permuted for a RoPE that rotates neighbours (2j, 2j+1); `unpermute` undoes that.

Sources: the GGUF specification (ggml, docs/gguf.md) for keys, tensor names and the reversed order of dimensions;
Touvron et al., "LLaMA" (2023) for the block; Su et al., "RoFormer" (2021) for RoPE; Sennrich et al. (2016) for BPE and
Radford et al., "GPT-2" (2019) for its byte-level form and its pre-tokenizer pattern.
"""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import regex
from gguf.quants import dequantize

ARCHITECTURE = "llama"  # SmolLM and SmolLM2 are stored under this name too.
LAYER_TENSORS = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")

# The `smollm` pre-tokenizer: every digit is a piece of its own, the text between digits is cut by the GPT-2 pattern.
DIGIT = regex.compile(r"(\p{N})")
PIECE = regex.compile(r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


class Refusal(Exception):
    """The input cannot be traced; the message is one line for the user."""


@dataclass(frozen=True)
class Config:
    """Hyperparameters as the file states them; `rope_theta` is the base of the RoPE frequencies."""

    name: str
    licence: str
    layers: int
    hidden: int
    ffn: int
    q_heads: int
    kv_heads: int
    head_dim: int
    context: int
    norm_eps: float
    rope_theta: float


@dataclass(frozen=True)
class Layer:
    """Activations of one layer: x [T, hidden] in, q [T, Hq, D] and k [T, Hkv, D] after RoPE, v [T, Hkv, D], attn and
    mlp [T, hidden], the two terms the layer adds to the residual stream."""

    x: np.ndarray
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    attn: np.ndarray
    mlp: np.ndarray


def open_reader(path: Path) -> gguf.GGUFReader:
    """Parses the GGUF at `path`, or refuses with the reason."""
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"GGUF":
                raise Refusal(f"{path} is not a GGUF file")
        return gguf.GGUFReader(path)
    except OSError as error:
        raise Refusal(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:
        raise Refusal(f"{path} is a damaged or unsupported GGUF file: {error}") from error


class Model:
    """A GGUF of architecture `llama`; weights are dequantized when asked for."""

    def __init__(self, path: Path):
        self.path = Path(path)
        self.reader = open_reader(self.path)
        architecture = self.field("general.architecture", str)
        if architecture != ARCHITECTURE:
            raise Refusal(f"{path} has architecture '{architecture}'; only '{ARCHITECTURE}' is supported")
        self.config = self.read_config()
        self.tensors = {tensor.name: tensor for tensor in self.reader.tensors}
        self.check_tensors()

    def field(self, key: str, kind: type, default=None):
        """The metadata value of `key`; without a default, a missing key is refused, and so is a wrong type."""
        entry = self.reader.fields.get(key)
        if entry is None and default is None:
            raise Refusal(f"{self.path} has no metadata key '{key}'")
        value = default if entry is None else entry.contents()
        if not isinstance(value, kind):
            raise Refusal(f"{self.path}: metadata key '{key}' is not of type {kind.__name__}")
        return value

    def read_config(self) -> Config:
        """Reads the hyperparameters and refuses what the forward pass does not implement."""
        heads = self.field("llama.attention.head_count", int)
        hidden = self.field("llama.embedding_length", int)
        config = Config(
            name=self.field("general.name", str, self.path.stem),
            licence=self.field("general.license", str, "unspecified"),
            layers=self.field("llama.block_count", int),
            hidden=hidden,
            ffn=self.field("llama.feed_forward_length", int),
            q_heads=heads,
            kv_heads=self.field("llama.attention.head_count_kv", int, heads),
            head_dim=self.field("llama.attention.key_length", int, hidden // max(heads, 1)),
            context=self.field("llama.context_length", int),
            norm_eps=self.field("llama.attention.layer_norm_rms_epsilon", float),
            rope_theta=self.field("llama.rope.freq_base", float, 10000.0),
        )
        if min(config.q_heads, config.kv_heads, config.head_dim) < 1 or config.q_heads % config.kv_heads:
            raise Refusal(f"{self.path}: {config.q_heads} query heads do not divide over {config.kv_heads} KV heads")
        if config.head_dim % 2 or self.field("llama.rope.dimension_count", int, config.head_dim) != config.head_dim:
            raise Refusal(f"{self.path}: RoPE must cover all {config.head_dim} channels of a head, an even number")
        for key in self.reader.fields:
            if key.startswith("llama.rope.scal"):
                raise Refusal(f"{self.path}: RoPE scaling (key '{key}') is not supported")
        return config

    def check_tensors(self) -> None:
        """Refuses a tensor that is missing, misshapen or unknown (biases, experts, RoPE factors)."""
        c = self.config
        q, kv = c.q_heads * c.head_dim, c.kv_heads * c.head_dim
        shapes = [(c.hidden,), (q, c.hidden), (kv, c.hidden), (kv, c.hidden), (c.hidden, q),
                  (c.hidden,), (c.ffn, c.hidden), (c.ffn, c.hidden), (c.hidden, c.ffn)]
        expected = {f"blk.{i}.{name}.weight": shape
                    for i in range(c.layers) for name, shape in zip(LAYER_TENSORS, shapes)}
        vocabulary = (len(self.field("tokenizer.ggml.tokens", list)), c.hidden)
        expected |= {"token_embd.weight": vocabulary, "output_norm.weight": (c.hidden,)}
        if "output.weight" in self.tensors:
            expected["output.weight"] = vocabulary
        for name in sorted(expected.keys() ^ self.tensors.keys()):
            raise Refusal(f"{self.path}: tensor '{name}' is {'missing' if name in expected else 'not supported'}")
        for name, shape in expected.items():
            stored = tuple(int(n) for n in reversed(self.tensors[name].shape))
            if stored != shape:
                raise Refusal(f"{self.path}: tensor '{name}' has shape {list(stored)}, expected {list(shape)}")

    def tensor_types(self) -> list[str]:
        """The GGML types the weights are stored in, by name."""
        return sorted({tensor.tensor_type.name for tensor in self.tensors.values()})

    def weight(self, name: str, rows=slice(None)) -> np.ndarray:
        """The named tensor (or `rows` of it) as float32, [out, in] with the rows in the order of the file."""
        tensor = self.tensors[name]
        try:
            return dequantize(tensor.data[rows], tensor.tensor_type).astype(np.float32)
        except NotImplementedError as error:
            raise Refusal(f"{self.path}: tensor '{name}' has type {tensor.tensor_type.name}, not supported") from error

    def layer_weights(self, layer: int) -> dict[str, np.ndarray]:
        """The weights of a layer by GGUF name, [out, in], the rows of attn_q and attn_k in the Hugging Face order."""
        weights = {name: self.weight(f"blk.{layer}.{name}.weight") for name in LAYER_TENSORS}
        weights["attn_q"] = unpermute(weights["attn_q"], self.config.q_heads)
        weights["attn_k"] = unpermute(weights["attn_k"], self.config.kv_heads)
        return weights


def unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
    """GGUF row 2j + s of each head (s in 0, 1) becomes row s * D/2 + j. [heads * D, in] -> [heads * D, in]."""
    pairs = weight.reshape(heads, -1, 2, weight.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weight.shape)


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps)) * weight


def rope(x: np.ndarray, theta: float) -> np.ndarray:
    """Rotates row t of x [T, H, D]: the pair (j, j + D/2) by the angle t * theta^(-2j/D) radians."""
    tokens, _, dim = x.shape
    angle = np.arange(tokens)[:, None] * theta ** (-np.arange(0, dim, 2) / dim)
    cos, sin = (f(angle).astype(np.float32)[:, None, :] for f in (np.cos, np.sin))
    first, second = x[..., : dim // 2], x[..., dim // 2:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, q_start: int) -> np.ndarray:
    """Causal attention with the scale 1/sqrt(D): query row j of q [Tq, Hq, D] attends tokens 0..q_start + j of
    k, v [T, Hkv, D]. Returns the concatenated heads, [Tq, Hq * D]."""
    rows, heads, dim = q.shape
    group = heads // k.shape[1]
    hidden_tokens = np.arange(k.shape[0])[None, :] > q_start + np.arange(rows)[:, None]
    out = np.empty_like(q)
    for head in range(heads):
        scores = q[:, head] @ k[:, head // group].T / np.float32(np.sqrt(dim))
        scores[hidden_tokens] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[:, head] = weights @ v[:, head // group] / weights.sum(axis=1, keepdims=True)
    return out.reshape(rows, heads * dim)


def run_layer(config: Config, w: dict[str, np.ndarray], x: np.ndarray) -> Layer:
    """One transformer block on x [T, hidden]; the next layer reads x + attn + mlp."""
    def heads(name: str) -> np.ndarray:
        return (h @ w[name].T).reshape(len(x), -1, config.head_dim)

    h = rms_norm(x, w["attn_norm"], config.norm_eps)
    q, k, v = rope(heads("attn_q"), config.rope_theta), rope(heads("attn_k"), config.rope_theta), heads("attn_v")
    attn = attention(q, k, v, 0) @ w["attn_output"].T
    g = rms_norm(x + attn, w["ffn_norm"], config.norm_eps)
    gate = g @ w["ffn_gate"].T
    mlp = (gate * sigmoid(gate) * (g @ w["ffn_up"].T)) @ w["ffn_down"].T
    return Layer(x, q, k, v, attn, mlp)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), written with tanh so that no argument overflows."""
    return np.float32(0.5) * (np.tanh(np.float32(0.5) * x) + np.float32(1))


def forward(model: Model, ids: list[int], keep: set[int], count: int) -> tuple[dict[int, Layer], np.ndarray]:
    """Runs the first `count` layers on the tokens `ids`. Returns the layers in `keep` and the residual stream
    [T, hidden] behind the last layer run."""
    x = model.weight("token_embd.weight", np.asarray(ids))
    kept = {}
    for index in range(count):
        layer = run_layer(model.config, model.layer_weights(index), x)
        x = x + layer.attn + layer.mlp
        if index in keep:
            kept[index] = layer
    return kept, x


def next_token_loss(model: Model, ids: list[int], x: np.ndarray, chunk: int = 128) -> float:
    """Mean of -ln p(ids[t+1] | ids[0..t]) in nats over the T - 1 predictions inside the tokens `ids`; x [T, hidden] is
    the residual stream behind the last layer. Logits are formed `chunk` rows at a time to bound memory."""
    head = model.weight("output.weight" if "output.weight" in model.tensors else "token_embd.weight")
    x = rms_norm(x, model.weight("output_norm.weight"), model.config.norm_eps)
    targets, total = np.asarray(ids[1:]), 0.0
    for start in range(0, len(targets), chunk):
        wanted = targets[start:start + chunk]
        logits = (x[start:start + len(wanted)] @ head.T).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        total += float(np.sum(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(wanted)), wanted]))
    return total / len(targets)


def byte_symbols() -> list[str]:
    """The GPT-2 table from a byte to the printable character that stands for it in a vocabulary: printable Latin-1
    bytes stand for themselves, the others are numbered from U+0100 in ascending order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


class Tokenizer:
    """Byte-level BPE with the `smollm` pre-tokenizer. Control tokens are never produced: text that spells one is
    encoded as ordinary text."""

    def __init__(self, model: Model):
        kind, pre = (model.field(f"tokenizer.ggml.{key}", str) for key in ("model", "pre"))
        if (kind, pre) != ("gpt2", "smollm"):
            raise Refusal(f"{model.path} has tokenizer '{kind}' with pre-tokenizer '{pre}'; "
                          "only 'gpt2' with 'smollm' is supported")
        self.tokens = model.field("tokenizer.ggml.tokens", list)
        self.ids = {token: index for index, token in enumerate(self.tokens)}
        merges = model.field("tokenizer.ggml.merges", list)
        self.ranks = {tuple(merge.split(" ", 1)): rank for rank, merge in enumerate(merges)}
        self.prefix = []
        if model.field("tokenizer.ggml.add_bos_token", int, 0):
            self.prefix = [model.field("tokenizer.ggml.bos_token_id", int)]
        self.symbols = byte_symbols()
        self.bytes = {symbol: byte for byte, symbol in enumerate(self.symbols)}

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`, behind the begin-of-sequence token where the file asks for one."""
        cache: dict[str, list[int]] = {}
        ids = list(self.prefix)
        for span in DIGIT.split(text):
            for piece in PIECE.findall(span):
                if piece not in cache:
                    cache[piece] = [self.lookup(symbol) for symbol in self.merge(piece)]
                ids += cache[piece]
        return ids

    def merge(self, piece: str) -> list[str]:
        """Splits a piece into bytes and joins the neighbours of lowest merge rank, all occurrences of a pair at once,
        until no pair has a rank."""
        parts = [self.symbols[byte] for byte in piece.encode("utf-8")]
        while len(parts) > 1:
            best = min(zip(parts, parts[1:]), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if best not in self.ranks:
                break
            joined = []
            for part in parts:
                if joined and (joined[-1], part) == best:
                    joined[-1] += part
                else:
                    joined.append(part)
            parts = joined
        return parts

    def lookup(self, symbol: str) -> int:
        """The id of a symbol; a vocabulary may lack a rare byte, which is refused."""
        if symbol not in self.ids:
            raise Refusal(f"the tokenizer has no token for the bytes {[self.bytes[c] for c in symbol]} of the text")
        return self.ids[symbol]

    def decode(self, ids: list[int]) -> str:
        """The text of token ids produced by `encode`."""
        symbols = "".join(self.tokens[index] for index in ids[len(self.prefix):])
        return bytes(self.bytes[symbol] for symbol in symbols).decode("utf-8")

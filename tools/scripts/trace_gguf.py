#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the attention inputs of chosen layers of a GGUF model to a trace file.

    trace_gguf.py MODEL.gguf --layers 4,20 --out model.trace.safetensors

The model reads a text; of each chosen layer the trace holds post-RoPE q (the last --queries tokens), post-RoPE k and v
(all tokens) and W_O in 16 bits. docs/trace-format.md is the specification. `--loss` prints the next-token loss and
`--check-layer` compares a layer with a second implementation. Tensor shapes use the letters of gguf_llama.py.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import math
import operator
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors

from gguf_llama import LAYER_TENSORS, Config, Layer, Model, Refusal, Tokenizer, forward, next_token_loss

FORMAT_VERSION = 1
DEFAULT_TEXT = Path(__file__).parent / "data" / "trace_text.txt"
TEXT_HEADER = {"Text-Id": "id", "SPDX-License-Identifier": "licence"}
SAFETENSORS_DTYPE = {"bf16": "bfloat16", "f16": "float16"}
CHECK_TOLERANCE = 1e-4  # relative error of a row, see relative_error.


@dataclass(frozen=True)
class Text:
    """A text to trace: its body, and the id and licence its header states."""

    body: str
    id: str
    licence: str


def read_text(path: Path) -> Text:
    """Reads UTF-8 text. Leading lines that begin with '#' are the header and hold `Text-Id: ...` and
    `SPDX-License-Identifier: ...`; the blank line behind them is dropped too."""
    try:
        body = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"cannot read the text {path}: {error}") from error
    found = {"id": path.stem, "licence": "unspecified"}
    while body.startswith("#"):
        line, _, body = body.partition("\n")
        key, _, value = line.lstrip("# ").partition(":")
        if key in TEXT_HEADER:
            found[TEXT_HEADER[key]] = value.strip()
    return Text(body.lstrip("\n"), **found)


def tokenize(model: Model, text: Text, count: int) -> list[int]:
    """The first `count` tokens of the text; refuses a tokenizer that does not give the text back."""
    if not 2 <= count <= model.config.context:
        raise Refusal(f"--tokens is {count}, outside 2..{model.config.context}, the context of the model")
    tokenizer = Tokenizer(model)
    ids = tokenizer.encode(text.body)
    if tokenizer.decode(ids) != text.body:
        raise Refusal(f"the tokenizer of {model.path} does not round-trip the text")
    if len(ids) < count:
        raise Refusal(f"the text '{text.id}' is too short: {len(ids)} tokens, {count} wanted")
    return ids[:count]


def parse_layers(option: str, config: Config) -> list[int]:
    """Parses a comma-separated list of layers; returns them ascending."""
    try:
        layers = sorted({int(part) for part in option.split(",")})
    except ValueError:
        raise Refusal(f"--layers is '{option}', expected numbers separated by commas") from None
    for layer in layers:
        check_layer_index(layer, config)
    return layers


def check_layer_index(layer: int, config: Config) -> None:
    """Refuses a layer the model does not have."""
    if not 0 <= layer < config.layers:
        raise Refusal(f"layer {layer} is out of range: the model has layers 0..{config.layers - 1}")


def to_16_bits(x: np.ndarray, dtype: str, name: str) -> np.ndarray:
    """Rounds float32 to bf16 or f16, nearest with ties to even; returns the bit patterns as uint16, same shape.
    Refuses values that are not finite afterwards."""
    x = np.ascontiguousarray(x, dtype=np.float32)
    if dtype == "f16":
        with np.errstate(over="ignore"):
            bits = x.astype(np.float16).view(np.uint16)
        exponent = np.uint16(0x7C00)
    else:
        wide = x.view(np.uint32).astype(np.uint64)
        bits = ((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16).astype(np.uint16)
        exponent = np.uint16(0x7F80)
    if not np.isfinite(x).all() or ((bits & exponent) == exponent).any():
        raise Refusal(f"{name} has values that are not finite in {dtype}")
    return bits


def trace_tensors(model: Model, layers: dict[int, Layer], q_start: int, dtype: str) -> dict[str, np.ndarray]:
    """The tensors of a trace as 16-bit patterns: q [Tq, Hq, D], k and v [T, Hkv, D], wo [Hq * D, hidden]."""
    tensors = {}
    for index, layer in layers.items():
        wo = model.weight(f"blk.{index}.attn_output.weight").T
        for key, value in (("q", layer.q[q_start:]), ("k", layer.k), ("v", layer.v), ("wo", wo)):
            name = f"layers.{index}.{key}"
            tensors[name] = to_16_bits(value, dtype, name)
    return tensors


def describe(model: Model, text: Text, tensors: dict[str, np.ndarray], options: dict) -> dict:
    """The `kvq_trace` document; `options` holds q_start, tokens, layers and dtype."""
    c = model.config
    digest = hashlib.sha256(b"".join(bits.astype("<u2").tobytes() for _, bits in sorted(tensors.items())))
    with open(model.path, "rb") as file:
        model_digest = hashlib.file_digest(file, "sha256")
    return {
        "version": FORMAT_VERSION,
        **options,
        "model": {"name": c.name, "licence": c.licence, "file": model.path.name, "sha256": model_digest.hexdigest(),
                  "weight_types": model.tensor_types(), "layers": c.layers, "hidden": c.hidden,
                  "q_heads": c.q_heads, "kv_heads": c.kv_heads, "head_dim": c.head_dim},
        "rope": {"theta": c.rope_theta, "dim": c.head_dim, "style": "rotate_half", "first_position": 0},
        "text": {"id": text.id, "licence": text.licence, "sha256": hashlib.sha256(text.body.encode()).hexdigest()},
        "sha256": digest.hexdigest(),
    }


def write_trace(path: Path, tensors: dict[str, np.ndarray], document: dict) -> None:
    """Writes a safetensors file beside its final name and moves it there, so that `path` is whole or absent."""
    little_endian = {name: bits.astype("<u2") for name, bits in tensors.items()}
    specs = {name: safetensors.TensorSpec(dtype=SAFETENSORS_DTYPE[document["dtype"]], shape=list(bits.shape),
                                          data_ptr=bits.ctypes.data, data_len=bits.nbytes)
             for name, bits in little_endian.items()}
    data = safetensors.serialize(specs, {"kvq_trace": json.dumps(document, sort_keys=True, separators=(",", ":"))})
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        os.replace(partial, path)
    except OSError as error:
        raise Refusal(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def dot(a: list[float], b: list[float]) -> float:
    """Sum of products, in float64 and in order."""
    return sum(map(operator.mul, a, b))


def plain_norm(row: list[float], weight: list[float], eps: float) -> list[float]:
    """RMSNorm of one row."""
    factor = 1 / math.sqrt(dot(row, row) / len(row) + eps)
    return [value * factor * w for value, w in zip(row, weight)]


def plain_rope(head: list[float], position: int, theta: float) -> list[float]:
    """RoPE on channels in the order of the GGUF: the neighbours (2j, 2j + 1) by the angle position * theta^(-2j/D)."""
    out = list(head)
    for j in range(0, len(head), 2):
        angle = position * theta ** (-j / len(head))
        cos, sin = math.cos(angle), math.sin(angle)
        out[j] = head[j] * cos - head[j + 1] * sin
        out[j + 1] = head[j + 1] * cos + head[j] * sin
    return out


def plain_attention(q: list[list[float]], k: list, v: list, position: int) -> list[float]:
    """Attention of one token: q [Hq][D] over k, v [T][Hkv][D], tokens 0..position. Returns the concatenated heads."""
    out = []
    for head, query in enumerate(q):
        kv_head = head * len(k[0]) // len(q)
        scores = [dot(query, k[t][kv_head]) / math.sqrt(len(query)) for t in range(position + 1)]
        largest = max(scores)
        weights = [math.exp(score - largest) for score in scores]
        normalizer = sum(weights)
        for channel in range(len(query)):
            total = sum(weight * v[t][kv_head][channel] for t, weight in enumerate(weights))
            out.append(total / normalizer)
    return out


def plain_layer(model: Model, index: int, x: np.ndarray, positions: list[int]) -> dict[str, np.ndarray]:
    """A layer in plain float64 loops on the weights as the file orders them, with neighbour RoPE, so that neither
    `unpermute` nor rotate-half is taken for granted. x [T, hidden]. Returns k and v [T, Hkv, D] of all tokens, q
    [P, Hq, D], attn and mlp [P, hidden] of `positions`; q and k have the channels in the order of the GGUF."""
    c = model.config
    w = {name: model.weight(f"blk.{index}.{name}.weight").astype(float).tolist() for name in LAYER_TENSORS}

    def project(row: list[float], name: str) -> list[float]:
        return [dot(row, weights) for weights in w[name]]

    def heads(row: list[float], name: str) -> list[list[float]]:
        flat = project(row, name)
        return [flat[i:i + c.head_dim] for i in range(0, len(flat), c.head_dim)]

    rows = x.astype(float).tolist()
    normed = [plain_norm(row, w["attn_norm"], c.norm_eps) for row in rows]
    k = [[plain_rope(h, t, c.rope_theta) for h in heads(row, "attn_k")] for t, row in enumerate(normed)]
    v = [heads(row, "attn_v") for row in normed]
    out = {"q": [], "attn": [], "mlp": []}
    for t in positions:
        out["q"].append([plain_rope(h, t, c.rope_theta) for h in heads(normed[t], "attn_q")])
        out["attn"].append(project(plain_attention(out["q"][-1], k, v, t), "attn_output"))
        g = plain_norm([a + b for a, b in zip(rows[t], out["attn"][-1])], w["ffn_norm"], c.norm_eps)
        gated = [a / (1 + math.exp(-a)) * b for a, b in zip(project(g, "ffn_gate"), project(g, "ffn_up"))]
        out["mlp"].append(project(gated, "ffn_down"))
    return {name: np.array(value) for name, value in {**out, "k": k, "v": v}.items()}


def relative_error(value: np.ndarray, reference: np.ndarray) -> float:
    """The largest |value - reference| / |reference| over the rows (last axis), Euclidean norms."""
    error = np.linalg.norm(value - reference, axis=-1) / np.linalg.norm(reference, axis=-1)
    return float(error.max())


def check_layer(model: Model, index: int, layer: Layer) -> dict[str, float]:
    """Relative errors of the forward pass against `plain_layer`, at four query positions. Channel s * D/2 + j of the
    forward pass is channel 2j + s of the file."""
    tokens = len(layer.x)
    positions = sorted({0, 1, tokens // 2, tokens - 1})
    reference = plain_layer(model, index, layer.x, positions)
    values = {"q": layer.q[positions], "k": layer.k, "v": layer.v,
              "attn": layer.attn[positions], "mlp": layer.mlp[positions]}
    half = model.config.head_dim // 2
    for name in ("q", "k"):
        values[name] = np.stack([values[name][..., :half], values[name][..., half:]], axis=-1)
        values[name] = values[name].reshape(reference[name].shape)
    return {name: relative_error(values[name], reference[name]) for name in values}


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Trace the attention inputs of a GGUF model to a safetensors file.")
    parser.add_argument("model", type=Path, help="GGUF file of architecture llama")
    parser.add_argument("--out", type=Path, help="trace to write; needs --layers")
    parser.add_argument("--layers", help="layers to trace, for example 4,20")
    parser.add_argument("--text", type=Path, default=DEFAULT_TEXT, help="UTF-8 text to read (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=1024, help="tokens of k and v (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=256, help="last tokens to keep q of (default: %(default)s)")
    parser.add_argument("--dtype", choices=sorted(SAFETENSORS_DTYPE), default="bf16", help="default: %(default)s")
    parser.add_argument("--loss", action="store_true", help="print the next-token loss over the tokens")
    parser.add_argument("--check-layer", type=int, metavar="I", help="compare layer I with plain float64 loops")
    arguments = parser.parse_args(argv)
    if (arguments.out is None) != (arguments.layers is None):
        parser.error("--out and --layers go together")
    if arguments.out is None and not arguments.loss and arguments.check_layer is None:
        parser.error("nothing to do: give --out, --loss or --check-layer")
    return arguments


def trace(arguments: argparse.Namespace) -> None:
    """Runs what the command line asks for; the trace is written last."""
    if arguments.out is not None and not arguments.out.parent.is_dir():
        raise Refusal(f"cannot write {arguments.out}: {arguments.out.parent} is not a folder")
    model = Model(arguments.model)
    layers = parse_layers(arguments.layers, model.config) if arguments.layers is not None else []
    checked = [] if arguments.check_layer is None else [arguments.check_layer]
    for index in checked:
        check_layer_index(index, model.config)
    if not 1 <= arguments.queries <= arguments.tokens:
        raise Refusal(f"--queries is {arguments.queries}, outside 1..{arguments.tokens}, the tokens")
    text = read_text(arguments.text)
    ids = tokenize(model, text, arguments.tokens)
    count = model.config.layers if arguments.loss else max(layers + checked) + 1
    kept, x = forward(model, ids, {*layers, *checked}, count)
    if arguments.loss:
        print(f"loss {next_token_loss(model, ids, x):.4f} nats a token over {len(ids)} tokens of '{text.id}'")
    for index in checked:
        errors = check_layer(model, index, kept[index])
        print(f"layer {index} relative errors " + " ".join(f"{name} {error:.1e}" for name, error in errors.items()))
        if not all(error <= CHECK_TOLERANCE for error in errors.values()):
            raise Refusal(f"layer {index} differs from the plain loops by more than {CHECK_TOLERANCE}")
    if arguments.out is not None:
        q_start = arguments.tokens - arguments.queries
        tensors = trace_tensors(model, {index: kept[index] for index in layers}, q_start, arguments.dtype)
        options = {"q_start": q_start, "tokens": len(ids), "layers": layers, "dtype": arguments.dtype}
        write_trace(arguments.out, tensors, describe(model, text, tensors, options))


def main(argv: list[str]) -> int:
    """Returns the exit status: 0, or 1 behind one line on stderr when the input is refused."""
    try:
        trace(parse_arguments(argv))
    except Refusal as refusal:
        print(f"trace_gguf: error: {refusal}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

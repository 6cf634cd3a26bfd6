"""Checkpoints of large models that take almost no disk: real headers, a few layers of real numbers, holes for the rest.

A hole of a sparse file reads as zeros, so to whoever opens it the checkpoint is as large as it says.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from engine.demo import MODEL_DIRECTORY

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True)
class Shape:
    """A Llama's shape, and in how many files it is kept."""

    layers: int
    d_model: int
    heads: int
    key_value_heads: int
    intermediate: int
    vocabulary: int
    shards: int

    @property
    def head_dim(self) -> int:
        return self.d_model // self.heads


SHAPES = {
    "13b": Shape(40, 5120, 40, 40, 13824, 32000, 6),
    "70b": Shape(80, 8192, 64, 8, 28672, 128256, 30),
    "405b": Shape(126, 16384, 128, 8, 53248, 128256, 191),
}
"""LLaMA 13B, and Llama 3.1 70B and 405B."""


def attention_shapes(shape: Shape) -> dict[str, tuple[int, int]]:
    """Give the shapes of a layer's four projections, ``[out, in]``, by the letter of their names."""
    own, shared = shape.heads * shape.head_dim, shape.key_value_heads * shape.head_dim
    return {
        "q": (own, shape.d_model), "k": (shared, shape.d_model), "v": (shared, shape.d_model), "o": (shape.d_model, own)
    }  # fmt: skip


def _tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "model.embed_tokens.weight", (shape.vocabulary, shape.d_model)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}"
        for letter, size in attention_shapes(shape).items():
            yield f"{prefix}.self_attn.{letter}_proj.weight", size
        for part in ("gate", "up"):
            yield f"{prefix}.mlp.{part}_proj.weight", (shape.intermediate, shape.d_model)
        yield f"{prefix}.mlp.down_proj.weight", (shape.d_model, shape.intermediate)
        for norm in ("input", "post_attention"):
            yield f"{prefix}.{norm}_layernorm.weight", (shape.d_model,)
    yield "model.norm.weight", (shape.d_model,)
    yield "lm_head.weight", (shape.vocabulary, shape.d_model)


def random_weights(rows: int, columns: int, name: str) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Draw a tensor: Gaussian, its rows of different sizes, so that no spectrum is flat; the bits of its bfloat16."""
    generator = np.random.default_rng(list(name.encode()))
    drawn = generator.standard_normal((rows, columns), np.float32) * np.float32(0.02)
    drawn *= np.geomspace(1, 0.1, rows, dtype=np.float32)[generator.permutation(rows), None]
    bits: np.ndarray[Any, np.dtype[np.uint16]] = (drawn.view(np.uint32) >> 16).astype(np.uint16)
    return bits


def write_checkpoint(folder: Path, shape: Shape, filled: tuple[int, ...], rows: int | None = None) -> Path:
    """Write a folder as ``save_pretrained`` would, in bfloat16.

    Parameters
    ----------
    folder : where; it is made.
    shape : of the model.
    filled : the layers whose attention has numbers; all else is zero.
    rows : how many rows of each of their matrices have numbers; all unless given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_act": "silu",
        "hidden_size": shape.d_model, "intermediate_size": shape.intermediate, "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads, "num_key_value_heads": shape.key_value_heads,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "vocab_size": shape.vocabulary,
        "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    for name in TOKENIZER_FILES:
        shutil.copyfile(MODEL_DIRECTORY / name, folder / name)
    tensors = list(_tensors(shape))
    bounds = [number * len(tensors) // shape.shards for number in range(shape.shards + 1)]
    files: dict[str, str] = {}
    for number, (begin, end) in enumerate(pairwise(bounds), start=1):
        file = folder / f"model-{number:05}-of-{shape.shards:05}.safetensors"
        _write_shard(file, tensors[begin:end], filled, rows)
        files |= dict.fromkeys((name for name, _ in tensors[begin:end]), file.name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    return folder


def _write_shard(
    file: Path, tensors: list[tuple[str, tuple[int, ...]]], filled: tuple[int, ...], rows: int | None
) -> None:
    """Write one file: its header, and the numbers of filled layers at their places."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, size in tensors:
        begin, end = end, end + 2 * int(np.prod(size))
        header[name] = {"dtype": "BF16", "shape": list(size), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        start = out.tell()
        out.truncate(start + end)
        for name, size in tensors:
            if ".self_attn." in name and int(name.split(".")[2]) in filled:
                out.seek(start + header[name]["data_offsets"][0])
                random_weights(min(size[0], rows or size[0]), size[1], name).tofile(out)

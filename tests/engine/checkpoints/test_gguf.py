"""A GGUF file opens with the heads of the model that it was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import transformers
from safetensors.torch import load_file
from torch import Tensor

import engine
from engine.values.errors import EngineError
from tests.conftest import TinyModel
from tests.opening import VERIFIED, verdicts_of

HEADS, SHARED = 4, 2

NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
"""transformers' names for the tensors of a layer, by the format's."""


def interleaved(weight: Tensor, heads: int) -> Tensor:
    """Reorder rows for the format's rotation: the two numbers of a pair beside each other."""
    rows: Tensor = weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)
    return rows


def write_gguf(folder: Path, file: Path, quantised: bool = False) -> Path:
    """Write a tiny Llama's folder as a GGUF file."""
    config: Any = transformers.AutoConfig.from_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    writer = gguf.GGUFWriter(str(file), "llama")
    vocabulary = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary += [f"▁{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    vocabulary += [f"[{each}]" for each in range(config.vocab_size - len(vocabulary))]
    fields = {
        "context_length": config.max_position_embeddings, "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers, "feed_forward_length": config.intermediate_size,
        "head_count": config.num_attention_heads, "head_count_kv": config.num_key_value_heads,
        "layer_norm_rms_eps": config.rms_norm_eps, "vocab_size": config.vocab_size,
        "rope_dimension_count": config.hidden_size // config.num_attention_heads,
        "tokenizer_model": "llama", "token_list": vocabulary, "token_scores": [0.0] * len(vocabulary),
        "token_types": [3, 3, 3, *[6] * 256, *[1] * (len(vocabulary) - 259)], "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    for name, value in fields.items():
        getattr(writer, f"add_{name}")(value)

    def put(name: str, tensor: Tensor) -> None:
        array = tensor.float().contiguous().numpy()
        kind = gguf.GGMLQuantizationType.Q8_0 if quantised and array.ndim == 2 else None
        writer.add_tensor(name, array if kind is None else gguf.quants.quantize(array, kind), raw_dtype=kind)

    put("token_embd.weight", tensors["embed_tokens.weight"])
    put("output_norm.weight", tensors["norm.weight"])
    put("output.weight", tensors["embed_tokens.weight"])
    for layer in range(config.num_hidden_layers):
        for theirs, ours in NAMES.items():
            tensor = tensors[f"layers.{layer}.{ours}.weight"]
            heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(theirs)
            put(f"blk.{layer}.{theirs}.weight", tensor if heads is None else interleaved(tensor, heads))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.fixture
def folder(tiny_model: TinyModel) -> Path:
    return tiny_model("llama", hidden_size=64, intermediate_size=96)


@pytest.mark.parametrize("quantised", [False, True])
def test_heads_of_a_gguf_file_are_those_of_the_model(quantised: bool, folder: Path, tmp_path: Path) -> None:
    model = engine.open_model(write_gguf(folder, tmp_path / "tiny.gguf", quantised))
    stored = load_file(folder / "model.safetensors")
    assert [(layer.heads, layer.key_value_heads) for layer in model.outline.layers] == [(HEADS, SHARED)] * 2
    for head in range(HEADS):
        own, shared = slice(16 * head, 16 * head + 16), slice(16 * (head // 2), 16 * (head // 2) + 16)
        query, key, value, output = (stored[f"layers.1.self_attn.{name}_proj.weight"] for name in "qkvo")
        expected = {"W_Q": query[own], "W_K": key[shared], "W_V": value[shared], "W_O": output[:, own]}
        for name, weight in expected.items():
            rounding = 0.02 * float(weight.abs().max()) if quantised else 0.0
            np.testing.assert_allclose(model[f"L1H{head}"].arrays()[name], weight, atol=rounding)
    assert any("GGUF" in note for note in model.outline.notes)


def test_a_gguf_file_reads_sentences_and_is_proven(folder: Path, tmp_path: Path) -> None:
    write_gguf(folder, tmp_path / "tiny.gguf")
    model = engine.open_model(tmp_path)  # the only one in its folder
    maps = model.attention("a b c", "L0")
    assert maps.shape[0] == HEADS
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-5)
    assert verdicts_of(model) == VERIFIED


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + b"\0" * 40)
    with pytest.raises(EngineError, match=r"broken\.gguf"):
        engine.open_model(tmp_path / "broken.gguf")
    (tmp_path / "other.gguf").write_bytes(b"")
    with pytest.raises(EngineError, match="2 GGUF files"):
        engine.open_model(tmp_path)

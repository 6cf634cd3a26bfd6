"""Every format of weight file gives the same heads; a damaged, hostile or foreign one gives one clear line."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.architectures.heads import read_layer
from engine.architectures.tensors import TensorsReadOnce
from engine.checkpoints import tensor_reader
from engine.checkpoints.tensor_reader import Checkpoint, TensorInFile, read_pickled
from engine.values.errors import EngineError
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.opening import assert_same_heads, edited_weights, open_folder, open_reader, refusal
from tests.tiny_configurations import save_tiny

FIRST = Head("decoder", 0)


def as_bin(folder: Path, weights: dict[str, Tensor]) -> None:
    torch.save(weights, folder / "pytorch_model.bin")


def as_old_bin(folder: Path, weights: dict[str, Tensor]) -> None:
    """Write weights as PyTorch did before version 1.6, in which many early models on the Hub are stored."""
    torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def as_both(folder: Path, weights: dict[str, Tensor]) -> None:
    """Write weights as safetensors, beside a PyTorch file of something else."""
    save_file(weights, folder / "model.safetensors")
    torch.save({"other": torch.zeros(1)}, folder / "pytorch_model.bin")


def write_shards(
    folder: Path, weights: dict[str, Tensor], numbers: dict[str, int] | None = None, *, is_pickled: bool = False
) -> list[Path]:
    """Write each tensor to the file of its number, and the index; return the files.

    Unless numbers are given, a layer's projections are dealt out to three files.
    """
    numbers = numbers or {name: place % 3 + 1 for place, name in enumerate(sorted(weights))}
    stem, ending = ("pytorch_model", "bin") if is_pickled else ("model", "safetensors")
    count = max(numbers.values())
    files = [folder / f"{stem}-{number}-of-{count}.{ending}" for number in range(1, count + 1)]
    for number, file in enumerate(files, start=1):
        held = {name: weights[name] for name in numbers if numbers[name] == number}
        if is_pickled:
            torch.save(held, file)
        else:
            save_file(held, file, {"format": "pt"})
    places = {name: files[number - 1].name for name, number in numbers.items()}
    (folder / f"{stem}.{ending}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return files


def stored_weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights of a folder's only weight file, and delete it."""
    file = folder / "model.safetensors"
    weights: dict[str, Tensor] = load_file(file)
    file.unlink()
    return {name: weight.clone() for name, weight in weights.items()}


@pytest.mark.parametrize("write", [write_shards, partial(write_shards, is_pickled=True), as_bin, as_old_bin, as_both])
def test_every_format_of_file_gives_the_same_heads(
    write: Callable[[Path, dict[str, Tensor]], object], tiny_copy: TinyModel, tiny_model: TinyModel
) -> None:
    folder, plain = tiny_copy("llama"), tiny_model("llama")
    write(folder, stored_weights(folder))
    (_, found, anatomy), (_, expected, expected_anatomy) = open_folder(folder), open_folder(plain)
    assert found.entries == expected.entries
    assert anatomy.outline.layers == expected_anatomy.outline.layers
    assert anatomy.outline.stored_bytes == expected_anatomy.outline.stored_bytes
    assert_same_heads(folder, plain)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_weights_are_read_as_they_are_stored(dtype: torch.dtype, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("gpt2")
    with edited_weights(folder) as weights:
        weights.update({name: weight.to(dtype) for name, weight in weights.items()})
    _, checkpoint, anatomy = open_folder(folder)
    layer = read_layer(checkpoint, anatomy.modules[FIRST])
    assert anatomy.outline.dtype == str(dtype).removeprefix("torch.")
    assert set(layer.epsilons["Q"]) == {torch.finfo(dtype).eps}
    fused = weights["h.0.attn.c_attn.weight"]  # Conv1D: (in, out), queries first
    torch.testing.assert_close(layer.query[1], fused[:, 8:16].T, rtol=0, atol=0)


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("form", ["archive", "old", "plain pickle"])
def test_a_malicious_pickle_is_refused_and_not_executed(form: str, tiny_copy: TinyModel, tmp_path: Path) -> None:
    folder, payload = tiny_copy("llama"), Hostile(tmp_path / "executed")
    content, file = {**stored_weights(folder), "payload": payload}, folder / "pytorch_model.bin"
    if form == "plain pickle":
        file.write_bytes(pickle.dumps(payload))
    else:
        torch.save(content, file, _use_new_zipfile_serialization=form == "archive")
    assert "pytorch_model.bin" in refusal(folder)
    assert not payload.mark.exists()


@pytest.mark.parametrize("kept", [0, 4, 100, 0.5, 0.999])
def test_a_file_cut_short_is_named(kept: float, tiny_copy: TinyModel) -> None:
    file = tiny_copy("llama") / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[: int(kept * len(content)) if kept < 1 else int(kept)])
    line = refusal(file.parent)
    assert file.name in line
    assert "again" in line


def test_a_tensor_that_the_index_lists_and_no_shard_holds_is_named(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    write_shards(folder, stored_weights(folder))
    promised = "layers.1.self_attn.q_proj.weight"
    shard = folder / json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"][promised]
    save_file({name: weight for name, weight in load_file(shard).items() if name != promised}, shard)
    assert promised in refusal(folder)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float8_e4m3fn])
def test_a_dtype_that_is_no_plain_float_is_named(dtype: torch.dtype, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    with edited_weights(folder) as weights:
        weights.update({name: (10 * weight).to(dtype) for name, weight in weights.items()})
    _, checkpoint, anatomy = open_folder(folder)
    with pytest.raises(EngineError, match=str(dtype).removeprefix("torch.")):
        read_layer(checkpoint, anatomy.modules[FIRST])


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *(("layers.0.self_attn.k_proj.bias", shape) for shape in ((), (3,), (2, 16))),
        ("layers.0.self_attn.q_proj.weight", (32,)),
        ("layers.1.self_attn.o_proj.weight", (32,)),
    ],
)
def test_a_parameter_of_the_wrong_shape_is_named(name: str, shape: tuple[int, ...], tiny_copy: TinyModel) -> None:
    folder = tiny_copy("qwen2")
    with edited_weights(folder) as weights:
        weights[name] = torch.zeros(shape)
    assert name in refusal(folder)


@pytest.mark.parametrize("model_type", ["molmo2_text", "nomic_bert", "tipsv2_text_model"])
def test_converted_weights_are_those_of_the_loaded_model(model_type: str, tmp_path: Path) -> None:
    folder = save_tiny(model_type, tmp_path / "model")
    _, tensors, anatomy = open_folder(folder)
    module = anatomy.modules[Head(anatomy.outline.stacks[0], 1)]
    own = dict(open_reader(folder).modules[module.outline.name].named_parameters())
    value = next(tensor for name, tensor in own.items() if name in ("v_proj.weight", "value.weight"))
    torch.testing.assert_close(read_layer(tensors, module).value.flatten(0, 1), value.detach(), rtol=0, atol=0)


LAYOUTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("gpt2", "llama", "t5", "falcon", "gpt_neox", "deepseek_v3")),
    ("qwen3_next", {"layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 4,
                    "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}),
    ("squeezebert", {"embedding_size": 32, "q_groups": 1, "k_groups": 2, "v_groups": 8}),
    ("bloom", {}),
    ("convbert", {}),
]  # fmt: skip
"""Rows, columns, interleaved parts, latents, queries beside their gates, groups, and projections of other shapes."""


@pytest.mark.parametrize("at_once", [1, 1000])
@pytest.mark.parametrize(("model_type", "settings"), LAYOUTS)
def test_heads_read_from_files_are_those_of_the_whole_layer(
    model_type: str, settings: dict[str, Any], at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_tiny(model_type, tmp_path, **settings)
    _, checkpoint, anatomy = open_folder(folder)
    monkeypatch.setattr(tensor_reader, "AT_ONCE", at_once)
    monkeypatch.setattr(tensor_reader, "MOST_WHOLE", -1)
    for module in anatomy.modules.values():
        for heads in (None, range(module.outline.heads // module.outline.key_value_heads)):
            found = read_layer(checkpoint, module, heads)
            with monkeypatch.context() as whole:
                whole.setattr(tensor_reader, "MOST_WHOLE", 2**20)
                expected = read_layer(TensorsReadOnce(Checkpoint(folder)), module, heads)
            for name in ("query", "key", "value", "output", "query_bias", "key_bias", "value_bias", "gate"):
                mine, theirs = getattr(found, name), getattr(expected, name)
                assert (mine is None) == (theirs is None)
                if mine is not None:
                    assert mine.dtype == theirs.dtype
                    assert torch.equal(mine, theirs)


def test_tensors_of_a_pickled_archive_are_found_in_it(tmp_path: Path) -> None:
    whole, file = torch.randn(6, 8), tmp_path / "pytorch_model.bin"
    tensors = {
        "whole": whole, "same memory": whole[2:4], "turned": torch.randn(3, 5).T, "half": torch.randn(7).half(),
        "one": torch.tensor(3.0), "none": torch.empty(0, 4), "integers": torch.arange(9),
    }  # fmt: skip
    torch.save({"state_dict": tensors, "other": torch.ones(100)}, file)
    checkpoint, found = Checkpoint(file), read_pickled(file)
    assert checkpoint.entries.keys() == found.keys() == tensors.keys()
    for name, expected in tensors.items():
        assert isinstance(found[name][1], TensorInFile), name
        read = checkpoint.read(name)
        assert read.dtype == expected.dtype
        assert torch.equal(read, expected)

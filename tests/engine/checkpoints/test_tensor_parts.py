"""Parts of tensors in files: they equal the same part of the whole tensor, and no more than them is read."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.architectures.heads import read_layer
from engine.architectures.tensors import TensorsReadOnce
from engine.checkpoints import tensor_reader
from engine.checkpoints.tensor_reader import Checkpoint, TensorInFile, read_pickled
from tests.conftest import TinyModel
from tests.engine.checkpoints.test_checkpoint import as_bin, stored_weights
from tests.engine.checkpoints.test_files_changing import SAID, cut_short
from tests.opening import open_folder, refused
from tests.tiny_configurations import save_tiny


@pytest.fixture
def every_tensor_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read parts even of small tensors, a few rows at a time."""
    monkeypatch.setattr(tensor_reader, "MOST_WHOLE", -1)
    monkeypatch.setattr(tensor_reader, "AT_ONCE", 1000)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the bytes that are read from files."""
    counts: list[int] = []

    class Counting(io.FileIO):
        def readinto(self, room: Any) -> int | None:
            counts.append(len(room))
            return super().readinto(room)

    monkeypatch.setattr(Path, "open", lambda file, *mode, **how: Counting(file))
    return counts


LAYOUTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("gpt2", "llama", "t5", "falcon", "gpt_neox", "deepseek_v3")),
    ("qwen3_next", {"layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 4,
                    "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}),
    ("squeezebert", {"embedding_size": 32, "q_groups": 1, "k_groups": 2, "v_groups": 8}),
    ("bloom", {}),
    ("convbert", {}),
]  # fmt: skip
"""Rows, columns, interleaved parts, latents, queries beside their gates, groups, and projections of other shapes."""


@pytest.mark.usefixtures("every_tensor_is_large")
@pytest.mark.parametrize("at_once", [1, 1000, 10**6])
@pytest.mark.parametrize(("model_type", "settings"), LAYOUTS)
def test_heads_read_from_files_are_those_of_the_whole_layer(
    model_type: str, settings: dict[str, Any], at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_tiny(model_type, tmp_path, **settings)
    _, checkpoint, anatomy = open_folder(folder)
    monkeypatch.setattr(tensor_reader, "AT_ONCE", at_once)
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


@pytest.mark.usefixtures("every_tensor_is_large")
def test_only_one_heads_rows_of_a_large_tensor_are_read(tiny_model: TinyModel, taken: list[int]) -> None:
    _, checkpoint, anatomy = open_folder(tiny_model("llama"))
    outline = anatomy.outline.layers[0]
    read_layer(TensorsReadOnce(checkpoint), anatomy.modules[outline.name], range(1), "Q")
    assert sum(taken) == 4 * outline.head_dim * outline.d_model


@pytest.mark.usefixtures("every_tensor_is_large")
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_file_that_is_cut_short_while_its_rows_are_read_gives_one_line(
    name: str, tiny_copy: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_copy("llama")
    if name.endswith(".bin"):
        as_bin(folder, stored_weights(folder))
    checkpoint = Checkpoint(folder)

    class Cutting(io.FileIO):
        def readinto(self, room: Any) -> int | None:
            cut_short(folder / name)
            return super().readinto(room)

    monkeypatch.setattr(Path, "open", lambda file, *mode, **how: Cutting(file, *mode))
    works: list[Callable[[str], object]] = [checkpoint.read, lambda tensor: list(checkpoint.parts(tensor))]
    for work in works:
        assert refused(partial(work, "layers.1.self_attn.q_proj.weight")).endswith(name + SAID)
    monkeypatch.setattr(checkpoint.opened, "check", lambda file: None)
    assert "bytes are missing" in refused(partial(checkpoint.read, "layers.1.self_attn.q_proj.weight"))


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
